package main

import (
	"fmt"
	"os"
	"strings"

	"project/pinion"
)

type input struct {
	Path string `json:"path" description:"The file, relative to the workspace"`
}

func count(call *pinion.Call, in input) (string, error) {
	call.Progress("reading " + in.Path)
	text, err := os.ReadFile(call.Path(in.Path))
	return fmt.Sprintf("%d words", len(strings.Fields(string(text)))), err
}

func init() {
	pinion.Tool("{{tool}}", "{{example}}ounts the words of a file.", pinion.Reads, count)
	pinion.Command("{{name}}", "Ask for the number of words in a file", "<file>", func(call *pinion.Call, in string) ([]pinion.Action, error) {
		return pinion.Submit("Count the words in " + in + "."), nil
	})
}

func main() {}
