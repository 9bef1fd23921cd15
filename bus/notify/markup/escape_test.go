package markup

import "testing"

// A service that reads any text as Markdown shows a plain text unchanged.
func TestPlainTextIsEscaped(t *testing.T) {
	for _, tt := range []struct{ text, discord, mattermost string }{
		{"*bold* _it_ ~~no~~ ||spoiler|| `code`", `\*bold\* \_it\_ \~\~no\~\~ \|\|spoiler\|\| ` + "\\`code\\`", `=`},
		{"[link](javascript:alert(1))", `\[link](javascript:alert(1))`, `=`},
		{`C:\*dir`, `C:\\\*dir`, `=`},
		{"see (https://example.com/a_b_c), <https://example.com/_x_>", "see (https://example.com/a_b_c), <https://example.com/_x_>", `=`},
		{"# a\n> b\n- c\n1. d\n 2) e\n+ f - # > 1.", "\\# a\n\\> b\n\\- c\n1\\. d\n 2\\) e\n\\+ f - # > 1.", "\\# a\n\\> b\n\\- c\n1\\. d\n\u00a02\\) e\n\\+ f - # > 1."},
		{"title\n===\n\tcode", "title\n===\n\tcode", "title\n\u200b===\n\u00a0\u00a0\u00a0\u00a0code"},
		{"<@1> a < b <_x_", `\<@1> a < b <\_x\_`, "<\u200b@1> a < b <\\_x\\_"},
	} {
		if got := EscapeMarkdown(tt.text); got != tt.discord {
			t.Errorf("discord: %q becomes\n%q, want\n%q", tt.text, got, tt.discord)
		}
		want := tt.mattermost
		if want == "=" {
			want = tt.discord
		}
		if got := EscapeMattermost(tt.text); got != want {
			t.Errorf("mattermost: %q becomes\n%q, want\n%q", tt.text, got, want)
		}
	}
}
