package offload

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stevedore-bus/stevedore/tools"
)

// binaryNotice is the sentence that a model gets instead of bytes that are not text.
func binaryNotice(id, mediaType string, size int64) string {
	how := fmt.Sprintf(`to copy the bytes, call write_file with content={"$artifact":"%s","base64":true} and base64=true, or let the user save the artifact`, id)
	if slices.Contains(imageTypes, mediaType) && size <= maxImageFile {
		how = fmt.Sprintf("to see it, call %s(artifact_id); %s", ToolGet, how)
	}
	return fmt.Sprintf("The artifact '%s' is %d bytes of %s, %s; %s.", id, size, attribute(mediaType), whyBinary(mediaType), how)
}

// whyBinary says why a content is not shown.
func whyBinary(mediaType string) string {
	if strings.HasPrefix(mediaType, "text/") {
		return "in an encoding other than UTF-8"
	}
	return "which is not text"
}

// readableNotice follows the readable text of an artifact that is not UTF-8.
func readableNotice(rec Record) string {
	if charset := rec.charset(); charset != "" {
		return fmt.Sprintf("[this is the text of %s; the artifact '%s' has the exact bytes]", charset, rec.ID)
	}
	return fmt.Sprintf("[each \\xNN stands for a byte that is not UTF-8; the artifact '%s' has the exact bytes]", rec.ID)
}

// readable returns a text in a charset as UTF-8, with escapes for what is not text.
func readable(text, charset string) string {
	if charset != "" {
		if decoded, err := charsets[charset].NewDecoder().String(text); err == nil {
			return decoded
		}
	}
	return tools.EscapeBytes(text)
}
