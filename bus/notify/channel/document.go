package channel

import (
	"bytes"
	"cmp"
	"io"
	"mime/multipart"
	"strings"
	"time"

	"github.com/stevedore-bus/stevedore/tools"
)

// Document is a file that a notification sends to the user.
type Document struct {
	Name    string // of FileName
	Size    int64
	Content io.ReaderAt
	Close   func() error
	// Command is the one with which the user gets the file from a terminal.
	Command string
}

// FileChannel is a Channel whose Send also sends the File of a notification.
type FileChannel interface {
	Channel
	// MaxFile is the largest file that the platform takes, in bytes.
	MaxFile() int64
}

// FileName returns a name that is safe to show and to store. A user or a tool chose it.
func FileName(name string) string {
	name = strings.NewReplacer("/", "_", `\`, "_", `"`, "_").Replace(tools.OneLine(name))
	name = name[max(0, len(name)-100):] // the end tells the type
	return cmp.Or(strings.TrimLeft(strings.ToValidUTF8(name, ""), ". "), "file")
}

// reader reads the file from its start.
func (f *Document) reader() *io.SectionReader { return io.NewSectionReader(f.Content, 0, f.Size) }

// refused says that the platform does not take the file.
func (f *Document) refused(code string) string {
	return "the file " + f.Name + " cannot be sent: " + code + "; " + f.Command
}

// form returns a form with the fields that are not empty and, if it is not nil, a file, its length
// and its content type. The file is read only when the body is.
func form(fields map[string]string, field string, f *Document) (body io.Reader, length int64, contentType string) {
	var text bytes.Buffer
	w := multipart.NewWriter(&text) // its errors are those of text, which has none
	for name, value := range fields {
		if value != "" {
			_ = w.WriteField(name, value)
		}
	}
	if f == nil {
		_ = w.Close()
		return &text, int64(text.Len()), w.FormDataContentType()
	}
	_, _ = w.CreateFormFile(field, f.Name)
	head := text.Len()
	_ = w.Close()
	all := text.Bytes()
	return io.MultiReader(bytes.NewReader(all[:head]), f.reader(), bytes.NewReader(all[head:])), int64(len(all)) + f.Size, w.FormDataContentType()
}

// timeoutOf returns the timeout of a request with a body: a file may take longer than sendTimeout.
func timeoutOf(length int64) time.Duration {
	return sendTimeout + time.Duration(length>>17)*time.Second // at 128 KiB/s
}
