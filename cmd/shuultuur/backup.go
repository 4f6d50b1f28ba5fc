package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"shuultuur/engine/configuration"
	"shuultuur/lib/atomicfile"
)

const backupHelp = `
Writes what people have made into one file: the settings and the files that they
name in the same folder, the root certificate with its key, and the data folder:
accounts, the audit log, versions of the settings, changes of lists, alerts,
votes and keys. What can be fetched or made again is not in it, nor what is on
record of people's browsing. OUT holds secrets: keep it where nobody else reads.`

const restoreHelp = `
Puts back what "shuultuur backup" wrote, to the settings file -config and beside
it. The gateway must not run. What is there is replaced.`

// backup writes a backup.
func backup(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "backup", "[-config FILE] OUT", backupHelp)
	config := f.String("config", "", "settings `file` of the gateway")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	if e.at != nil {
		err := e.needs(f)
		var data []byte
		if err == nil {
			data, err = e.at.Backup(ctx)
		}
		if err == nil {
			err = atomicfile.WriteBytes(f.Arg(0), 0o600, data)
		}
		if err != nil {
			return fail(e, err)
		}
		return 0
	}
	var left []string
	err := atomicfile.Write(f.Arg(0), 0o600, func(w *os.File) (err error) {
		left, err = configuration.Backup(w, askedFile(*config))
		return err
	})
	if err != nil {
		return fail(e, err)
	}
	for _, l := range left {
		fmt.Fprintf(e.stderr, "not in the backup: %s\n", printable(l))
	}
	return 0
}

// restore restores a backup.
func restore(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "restore", "[-config FILE] BACKUP", restoreHelp)
	config := f.String("config", "shuultuur.yaml", "settings `file` to write")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	in, err := os.Open(f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	defer in.Close()
	names, err := configuration.Restore(bufio.NewReader(in), *config)
	for _, n := range names {
		fmt.Fprintln(e.stdout, printable(n))
	}
	if err != nil {
		return fail(e, err)
	}
	return 0
}
