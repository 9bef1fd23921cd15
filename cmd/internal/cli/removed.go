package cli

// removedSettings are settings of earlier versions, and what is so without them.
var removedSettings = map[string]string{
	"temperature": "models use the temperature of their provider",
}

// removedText says that a setting was removed, or is empty.
func removedText(flag string) string {
	if now := removedSettings[flag]; now != "" {
		return "--" + flag + " was removed: " + now
	}
	return ""
}
