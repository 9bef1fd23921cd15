package artifacts

import "testing"

// A reference says how the model reads, also if the server has a tool of the name of ours.
func TestText(t *testing.T) {
	const text = "Use grep_knowledge(artifact_id, pattern), jq_knowledge(artifact_id, query) or get_knowledge_by_id(artifact_id, offset). Or sql_knowledge, get_knowledge_by_id, query_artifacts."
	for want, way := range map[string]Way{
		"Use other_read_result(id, grep|jq|offset). Or other_read_result with sql, other_read_result, other_read_result.": ToolWay("other_read_result"),
		"Use read_mcp_resource of this server, uri stevedore://s/artifacts/ID?grep=REGEXP or ?jq=QUERY or ?offset=0. " +
			"Or ?sql=SELECT, ?offset=0, read_mcp_resource of this server, uri stevedore://s/artifacts/.": ResourceWay("s"),
		"Use the command: read ID --grep REGEXP or --jq QUERY or --offset 0. Or --sql SELECT, --offset 0, read.": CommandWay("read"),
	} {
		if got := new(Tools).Text(text, nil, way); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
