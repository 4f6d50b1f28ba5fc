package load

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
)

// Main runs a subcommand as the command line does, with flags in front.
func Main(args []string, stdout, stderr io.Writer) (status int) {
	if err := try(context.Background(), args, stdout, stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func try(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	all := Commands()
	i := slices.IndexFunc(all, func(c Command) bool { return len(args) > 0 && c.Name == args[0] })
	if i < 0 {
		return fmt.Errorf("%q is no command", args)
	}
	c, args := all[i], args[1:]
	fs := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	run := c.Flags(fs)
	var err error
	if c.Abbreviated {
		args, err = Expand(fs, args)
	}
	if err == nil {
		err = fs.Parse(args)
	}
	if err == nil && (fs.NArg() < c.Least || c.Most >= 0 && fs.NArg() > c.Most) {
		err = fmt.Errorf("%d arguments", fs.NArg())
	}
	if err != nil {
		return err
	}
	return run(ctx, fs.Args(), stdout, stderr)
}

func httpFlagSet() *flag.FlagSet {
	fs := flag.NewFlagSet("http", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	new(httpFlags).set(fs)
	return fs
}
