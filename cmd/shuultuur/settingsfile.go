package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"shuultuur/engine"
	"shuultuur/engine/starter"
)

// installed are the settings files of packages.
var installed = []string{"/etc/shuultuur/shuultuur.yaml", "/usr/local/etc/shuultuur/shuultuur.yaml"}

// usualFile returns the settings file to use for "": the one in this folder, the starter
// settings, which may have been changed, or that of the service; "" if there is none. It
// returns a file even if this user may not read it, so that no command uses another one
// instead.
func usualFile(file string) string {
	if file != "" {
		return file
	}
	for _, f := range append([]string{"shuultuur.yaml", filepath.Join("data", "starter", "shuultuur.yaml")}, installed...) {
		if _, err := os.Stat(f); err == nil || errors.Is(err, fs.ErrPermission) {
			return f
		}
	}
	return ""
}

// askedFile is usualFile for commands that require settings.
func askedFile(file string) string { return cmp.Or(usualFile(file), "shuultuur.yaml") }

// explain is engine.Explain, with the usual settings if file is "".
func explain(ctx context.Context, file string) (*engine.Engine, func(), error) {
	if file = usualFile(file); file != "" {
		return engine.Explain(ctx, file)
	}
	dir, err := os.MkdirTemp("", "shuultuur-")
	if err != nil {
		return nil, nil, err
	}
	clean := func() { os.RemoveAll(dir) }
	if err := starter.Write(dir); err != nil {
		clean()
		return nil, nil, err
	}
	e, done, err := engine.Explain(ctx, filepath.Join(dir, "shuultuur.yaml"))
	if err != nil {
		clean()
		return nil, nil, err
	}
	return e, func() { done(); clean() }, nil
}

// oneFile returns the settings file from the flag or the argument.
func oneFile(flag, arg string) (string, error) {
	if flag != "" && arg != "" && flag != arg {
		return "", fmt.Errorf("two settings files, %q and %q: name one", flag, arg)
	}
	return cmp.Or(flag, arg), nil
}

// settingsFile returns the settings to use, and whether they are the starter
// settings.
func settingsFile(config string) (file string, isStarter bool, err error) {
	if config != "" {
		return config, false, nil
	}
	const here = "shuultuur.yaml"
	if _, err := os.Stat(here); err == nil {
		return here, false, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	dir := filepath.Join("data", "starter")
	if err := starter.Write(dir); err != nil {
		return "", false, fmt.Errorf("writing the starter settings: %w", err)
	}
	return filepath.Join(dir, here), true, nil
}
