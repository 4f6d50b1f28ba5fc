package main

import (
	"context"
	"fmt"
	"io"
	"os"

	contents "shuultuur/admin/backup"
	"shuultuur/engine"
	"shuultuur/engine/configuration"
	"shuultuur/lib/atomicfile"
)

const backupHelp = `
Writes what people have made into one file: the settings and the files that they
name in the same folder, the root certificate with its key, and the data folder:
accounts, the audit log, versions of the settings, changes of lists, alerts,
votes and keys. What can be fetched or made again is not in it, nor what is on
record of people's browsing. It says what it holds, and which files it left out.
OUT holds secrets: keep it where nobody else reads, or encrypt it in the format of
age. -passphrase names a file with the passphrase ("-" for standard input).`

const restoreHelp = `
Checks what "shuultuur backup" wrote, then puts it back, to the settings file -config
and beside it, with the owners and modes that the files had, in place of what is
there. A gateway that runs does it itself, and starts again. -passphrase names a file
with the passphrase of an encrypted backup ("-" for standard input), -address this
machine's address, which takes the place of the other one's in the settings.`

// backup writes a backup.
func backup(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "backup", "[-config FILE] [-passphrase FILE] OUT", backupHelp)
	config := f.String("config", "", "settings `file` of the gateway")
	secret := f.String("passphrase", "", "`file` with the passphrase that encrypts OUT")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	var c contents.Contents
	passphrase, err := contents.Passphrase(e.stdin, *secret)
	if err == nil && e.at != nil {
		err = e.needs(f)
	}
	if err == nil {
		err = atomicfile.Write(f.Arg(0), 0o600, func(w *os.File) error {
			return contents.Encrypted(w, passphrase, func(w io.Writer) (err error) {
				if e.at == nil {
					c, err = configuration.Backup(w, askedFile(*config))
					return err
				}
				return e.at.Backup(ctx, w)
			})
		})
	}
	if err != nil {
		return fail(e, err)
	}
	for _, what := range c.Held {
		fmt.Fprintf(e.stdout, "holds %s\n", what)
	}
	for _, l := range c.Left {
		fmt.Fprintf(e.stderr, "not in the backup: %s\n", printable(l))
	}
	return 0
}

// restore restores a backup.
func restore(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "restore", "[-config FILE] [-passphrase FILE] [-address IP] BACKUP", restoreHelp)
	config := f.String("config", "shuultuur.yaml", "settings `file` to write")
	secret := f.String("passphrase", "", "`file` with the passphrase of BACKUP")
	address := f.String("address", "", "`IP` address of this machine, in place of that of the other one")
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	plain, err := contents.OpenFile(f.Arg(0), e.stdin, *secret)
	if err != nil {
		return fail(e, err)
	}
	defer plain.Close()
	lines, err := engine.Restore(ctx, plain, *config, *address)
	for _, line := range lines {
		fmt.Fprintln(e.stdout, printable(line))
	}
	if err == nil {
		return 0
	}
	return fail(e, err)
}
