package demo

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/stevedore-bus/stevedore/tools"
)

const countTool = "count_words"

// countWords is an example of an async tool.
type countWords struct{ root *os.Root }

func newCountTool(workspace string) (*countWords, error) {
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return &countWords{root: root}, nil
}

func (*countWords) Definition() tools.Definition {
	return tools.Definition{Name: countTool, Description: "Count the words of all files, in the background.", Effect: tools.Idempotent}
}

func (c *countWords) Execute(ctx context.Context, _ tools.Call) *tools.Result { return c.count(ctx) }

func (c *countWords) ExecuteAsync(ctx context.Context, _ tools.Call, callback tools.AsyncCallback) *tools.Result {
	go func() { callback(ctx, c.count(ctx)) }()
	return tools.AsyncResult("Task started in background")
}

func (c *countWords) count(ctx context.Context) *tools.Result {
	files, words := 0, 0
	err := fs.WalkDir(c.root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case err != nil || !entry.Type().IsRegular():
			return nil // skip unreadable files
		}
		file, err := c.root.Open(path)
		if err != nil {
			return nil
		}
		defer file.Close()
		scanner := bufio.NewScanner(file)
		scanner.Split(bufio.ScanWords)
		for files++; scanner.Scan(); words++ {
		}
		return nil // a word that is too long for the scanner ends a binary file
	})
	if err != nil {
		return tools.Failure(err)
	}
	return tools.UserResult(fmt.Sprintf("There are %s words in %s files.", thousands(int64(words)), thousands(int64(files))))
}
