package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"shuultuur/engine/starter"
	"shuultuur/lib/atomicfile"
)

const initHelp = `
Writes the starter settings with their lists and phrases into DIR, for you to
change. Files that are there already stay as they are.`

func initialise(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "init", "[-data DIR] DIR", initHelp)
	data := f.String("data", "", "`folder` for what the program writes, if not data beside the settings")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	file := filepath.Join(f.Arg(0), "shuultuur.yaml")
	_, there := os.Stat(file)
	if err := starter.Write(f.Arg(0)); err != nil {
		return fail(e, err)
	}
	if *data != "" && errors.Is(there, fs.ErrNotExist) {
		if err := setData(file, *data); err != nil {
			return fail(e, err)
		}
	}
	fmt.Fprintf(e.stdout, e.named("wrote %s; start with: shuultuur run %s\n"), file, file)
	return 0
}

// setData sets the data folder in newly written settings.
func setData(file, dir string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = bytes.Replace(text, []byte("data: ./data "), []byte("data: "+strconv.Quote(dir)+" "), 1)
	return atomicfile.WriteBytes(file, 0o644, text)
}
