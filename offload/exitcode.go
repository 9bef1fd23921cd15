package offload

import (
	"io"
	"regexp"
)

// exitCode is the last line of the output of a command, as the tool shell writes it.
// No JSON ends like that.
var exitCode = regexp.MustCompile(`\n\[Exit code: -?[0-9]+\]\n?$`)

// sizeWithoutExitCode returns the number of bytes of a content before the exit code.
func sizeWithoutExitCode(src io.ReaderAt, size int64) (int64, error) {
	n := min(size, 40)
	end, err := readRange(src, size-n, n)
	if err != nil {
		return 0, err
	}
	at := exitCode.FindIndex(end)
	if at == nil {
		return size, nil
	}
	return size - n + int64(at[0]), nil
}
