//go:build !small

package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"shuultuur/lib/dns"
	"shuultuur/lib/redis"
	"shuultuur/zone"
	"shuultuur/zone/redins"
)

const zoneLoadHelp = `
Reads zone files (RFC 1035 section 5) and puts each zone into Redis, in the
place of what is there under its name; name servers that have it answer from
the new one at once. The origin is that of the flag, else the file's name
without .zone. Types that redins' JSON does not know go to fields of ours, dname
and rr. Of the zone's config only the SOA is replaced, and keys stay.

A zone in Redis that chooses among addresses or has ANAMEs is not replaced,
for a file cannot hold those, unless -force is given.`

const zoneExportHelp = `
Prints zones in Redis, all if none is named, as zone files (RFC 1035). What a
file cannot hold (ANAMEs, how addresses are chosen) is written as comments. What
a server would leave out is left out and named on standard error; the exit
status is 1 then.`

const zoneImportHelp = `
Prints settings of ours made of the config.json of redins or z42, and says on
standard error what was not carried over. Zones stay in Redis as they are.`

// redisFlags say how to reach the zones in Redis.
type redisFlags struct {
	url, schema, prefix, suffix *string
}

func addRedisFlags(f *flag.FlagSet) redisFlags {
	return redisFlags{
		f.String("redis", "127.0.0.1:6379", "`address`, or redis[s]://[user[:password]@]host[:port][/db]; a password that is not there is taken from $REDISCLI_AUTH"),
		f.String("schema", "redins", "`layout` of the zones: redins or z42"),
		f.String("prefix", "", "`text` before every key"),
		f.String("suffix", "", "`text` after every key"),
	}
}

// open connects. closing closes the connection.
func (r redisFlags) open() (store *redins.Store, closing func(), err error) {
	schema := redins.Schema(*r.schema)
	if schema != redins.Redins && schema != redins.Z42 {
		return nil, nil, fmt.Errorf("schema %q is not redins or z42", schema)
	}
	settings, err := redis.ParseURL(*r.url)
	if err != nil {
		return nil, nil, fmt.Errorf("-redis %w", err)
	}
	settings.Password = cmp.Or(settings.Password, os.Getenv("REDISCLI_AUTH"))
	settings.Prefix = *r.prefix
	if store, err = redins.Open(context.Background(), settings, schema, *r.suffix); err != nil {
		return nil, nil, err
	}
	return store, store.Client.Close, nil
}

func zoneLoad(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "zone load", "[flags] FILE...", zoneLoadHelp)
	origin := f.String("origin", "", "`name` of the zone")
	force := f.Bool("force", false, "also replace what a file cannot express")
	from := addRedisFlags(f)
	if status := parse(args, 1, -1); status >= 0 {
		return status
	}
	if *origin != "" && f.NArg() > 1 {
		return reportMistake(e, f, "-origin is for one file")
	}
	var zones []*zone.Zone
	for _, file := range f.Args() { // read all files before any is written
		name := *origin
		if name == "" {
			name = strings.TrimSuffix(filepath.Base(file), ".zone")
		}
		z, err := zone.ReadFile(file, name)
		if err != nil {
			return fail(e, err)
		}
		fatal := false
		for _, p := range zone.Check(z) {
			fmt.Fprintln(e.stderr, p)
			fatal = fatal || p.Fatal
		}
		if fatal {
			return fail(e, fmt.Errorf("%s has errors; nothing was written to Redis", file))
		}
		zones = append(zones, z)
	}
	store, closing, err := from.open()
	if err != nil {
		return fail(e, err)
	}
	defer closing()
	for _, z := range zones {
		if err := loadZone(ctx, e, store, z, *force); err != nil {
			return fail(e, err)
		}
	}
	return 0
}

func loadZone(ctx context.Context, e env, store *redins.Store, z *zone.Zone, force bool) error {
	if old, _, err := store.Read(ctx, canonical(z.Origin), 1); err == nil && !force {
		if n := len(old.Choices) + len(old.Aliases); n > 0 {
			return fmt.Errorf("zone %s in Redis has choices among addresses or ANAMEs at %d names, which a file cannot express; -force replaces it", old.Origin, n)
		}
	}
	written, deleted, err := store.Write(ctx, z)
	if err != nil {
		return err
	}
	fmt.Fprintf(e.stdout, "%s: %d records, %d values written, %d deleted\n", z.Origin, len(z.Records), written, deleted)
	return nil
}

func zoneExport(ctx context.Context, e env, args []string) int {
	f, parse := flags(e, "zone export", "[flags] [ORIGIN...]", zoneExportHelp)
	to := f.String("to", "", "`folder` to write a file for each zone to, as ORIGIN.zone, made if need be; default standard output")
	ttl := f.Uint("ttl", 3600, "TTL in `seconds` of records that have none")
	from := addRedisFlags(f)
	if status := parse(args, 0, -1); status >= 0 {
		return status
	}
	store, closing, err := from.open()
	if err != nil {
		return fail(e, err)
	}
	defer closing()
	names := f.Args()
	if len(names) == 0 {
		if names, err = store.Zones(ctx); err != nil {
			return fail(e, err)
		}
	}
	status := 0
	for _, name := range names {
		z, problems, err := store.Read(ctx, canonical(name), uint32(*ttl))
		if err == nil {
			err = exportZone(e, z, *to)
		}
		if err != nil {
			return fail(e, err)
		}
		for _, p := range problems {
			fmt.Fprintln(e.stderr, p)
			status = 1
		}
	}
	return status
}

func exportZone(e env, z *zone.Zone, dir string) (err error) {
	if dir == "" {
		return zone.Write(e.stdout, z)
	}
	name := strings.ReplaceAll(strings.TrimSuffix(z.Origin, "."), "/", "_")
	if name == "" {
		name = "root"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(dir, name+".zone"))
	if err != nil {
		return err
	}
	defer func() {
		if closing := out.Close(); err == nil {
			err = closing
		}
	}()
	return zone.Write(out, z)
}

// canonical returns the name of a zone in lower case with a final dot. It
// returns an invalid name unchanged, because no zone has it.
func canonical(name string) string {
	wire, err := dns.Name(name)
	if err != nil {
		return name
	}
	return dns.Text(wire)
}

func zoneImport(_ context.Context, e env, args []string) int {
	f, parse := flags(e, "zone import", "CONFIG.json", zoneImportHelp)
	if status := parse(args, 1, 1); status >= 0 {
		return status
	}
	text, err := os.ReadFile(f.Arg(0))
	if err != nil {
		return fail(e, err)
	}
	settings, remarks, err := redins.Import(text)
	if err != nil {
		return fail(e, fmt.Errorf("%s: %w; zone files are put into Redis with \"shuultuur zone load\"", f.Arg(0), err))
	}
	for _, r := range remarks {
		fmt.Fprintln(e.stderr, r)
	}
	if _, err := e.stdout.Write(settings); err != nil {
		return fail(e, err)
	}
	return 0
}
