package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuultuur/lib/dns"
	"shuultuur/lib/redis"
	"shuultuur/tool/load"
	"shuultuur/zone"
	"shuultuur/zone/redins"
	"shuultuur/zone/sign"
	"shuultuur/zone/transfer"
)

const redisZoneAbout = "A zone in Redis: from a change there to the answer"

const (
	redisZoneTarget = 100 * time.Millisecond // limit for 100,000 names
	redisZoneMemory = 40                     // limit of resident MB for 100,000 unsigned names
	redisZoneRate   = 10_000                 // queries per second throughout
	redisZoneTurns  = 10                     // changes, additions and removals of a name per round
	redisZonePause  = 300 * time.Millisecond // between two changes
)

// redisZone is one zone in one schema.
type redisZone struct {
	schema       redins.Schema
	names        int
	signed       bool
	took         map[string][]float64 // ms, by kind of change
	before, most float64              // MB resident
	lost         int64
}

// redisZones measures the time until changes of zones are answered.
func redisZones(ctx context.Context, opt options, out io.Writer) error {
	r, err := newNameRig(ctx, out, redisZoneAbout, "redis-server", "taskset")
	if err != nil || r == nil {
		return err
	}
	defer r.close()
	addr, _, err := r.startRedis(dnsGeneratorCore, "notify-keyspace-events KA\n")
	if err != nil {
		return err
	}
	if err := r.pinSelf(dnsGeneratorCore); err != nil {
		return err
	}
	var all []*redisZone
	for _, schema := range []redins.Schema{redins.Redins, redins.Z42} {
		for _, names := range []int{1000, 10_000, 100_000} {
			all = append(all, &redisZone{schema: schema, names: names})
		}
		all = append(all, &redisZone{schema: schema, names: 100_000, signed: true})
	}
	for i, z := range all {
		z.took = map[string][]float64{}
		if err := r.redisZone(z, addr, i, opt); err != nil {
			return fmt.Errorf("%s, %d names: %w", z.schema, z.names, err)
		}
	}
	return r.printRedisZones(out, all, opt)
}

// startRedis starts a Redis without persistence, with additional settings, and returns its
// address.
func (r *rig) startRedis(core, more string) (addr string, p *process, err error) {
	if addr, err = freeAddr(); err != nil {
		return "", nil, err
	}
	_, port, _ := strings.Cut(addr, ":")
	p, err = r.start(core, "redis", addr, []string{"redis-server", "FILE"}, "bind 127.0.0.1\nport "+port+"\nsave \"\"\nappendonly no\n"+more)
	return addr, p, err
}

// redisZone fills a database, serves it, and changes it under load.
func (r *rig) redisZone(z *redisZone, server string, db int, opt options) error {
	store, err := redins.Open(r.ctx, redis.Config{Addresses: []string{server}, DB: db}, z.schema, "")
	if err != nil {
		return err
	}
	client := store.Client
	defer client.Close()
	if err := r.fillRedis(z, store); err != nil {
		return err
	}
	own, err := freeAddr()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := r.start(dnsServerCore, fmt.Sprintf("%s-%d", z.schema, z.names), own, []string{self, serveRedis, own, server, strconv.Itoa(db), string(z.schema)}, "")
	if err != nil {
		return err
	}
	defer func() { p.stop(processTree(p.cmd.Process.Pid)) }()
	conn, err := net.Dial("udp", own)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := until(conn, "h000000.zone.example.", "192.0.2.0"); err != nil {
		return fmt.Errorf("%w\n%s", err, p.tail())
	}
	p.settle(r.ctx)
	z.before = p.residentMB()
	return r.changeUnderLoad(z, p, client, conn, opt)
}

// fillRedis writes the zone, and its keys if it is signed.
func (r *rig) fillRedis(z *redisZone, store *redins.Store) error {
	var text strings.Builder
	text.WriteString("$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 300\n@ NS ns1\nns1 A 192.0.2.1\n")
	for i := range z.names {
		fmt.Fprintf(&text, "h%06d A 192.0.2.%d\n", i, i%250)
		if i%10 == 0 {
			fmt.Fprintf(&text, "h%06d MX 10 ns1\n", i)
		}
	}
	whole, err := zone.Read(strings.NewReader(text.String()), "zone.example.", "")
	if err != nil {
		return err
	}
	if _, _, err := store.Write(r.ctx, whole); err != nil {
		return err
	}
	if z.signed {
		return z.sign(r.ctx, store.Client, r.dir)
	}
	return nil
}

// changeUnderLoad changes the zone while its server answers queries, and measures the server's
// memory and lost queries.
func (r *rig) changeUnderLoad(z *redisZone, p *process, client *redis.Client, conn net.Conn, opt options) error {
	var queries strings.Builder
	for range 10_000 {
		fmt.Fprintf(&queries, "h%06d.zone.example A\n", rand.IntN(z.names))
	}
	var err error
	cfg := load.DNSConfig{Server: conn.RemoteAddr().String(), Rate: redisZoneRate, Sockets: 4, Duration: time.Duration(opt.rounds*redisZoneTurns*3)*(redisZonePause+redisZoneTarget) + time.Second}
	if cfg.Queries, err = load.ReadQueries(strings.NewReader(queries.String()), "queries"); err != nil {
		return err
	}
	g, err := load.NewDNS(cfg)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	type result struct {
		rep *load.DNSReport
		err error
	}
	loaded := make(chan result, 1)
	go func() {
		rep, err := g.Run(ctx)
		loaded <- result{rep, err}
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for ctx.Err() == nil {
			z.most = max(z.most, p.residentMB())
			time.Sleep(50 * time.Millisecond)
		}
	}()
	time.Sleep(time.Second)
	for turn := range opt.rounds * redisZoneTurns {
		if err := z.turn(r.ctx, client, conn, turn); err != nil {
			return fmt.Errorf("%w\n%s", err, p.tail())
		}
	}
	stop()
	<-watched
	got := <-loaded
	if got.rep == nil {
		return got.err
	}
	z.lost = got.rep.Lost
	return nil
}

// sign stores keys with the zone, and marks it as signed.
func (z *redisZone) sign(ctx context.Context, client *redis.Client, dir string) error {
	var b redis.Batch
	key := string(z.schema) + ":zones:zone.example.:"
	for role, ksk := range map[string]bool{"zsk": false, "ksk": true} {
		k, err := sign.Generate("zone.example.", "ecdsap256sha256", ksk)
		if err != nil {
			return err
		}
		public, err := k.Write(dir)
		if err != nil {
			return err
		}
		for half, file := range map[string]string{"pub": public, "priv": strings.TrimSuffix(public, ".key") + ".private"} {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			b.Add("SET", key+role+":"+half, string(text))
		}
	}
	b.Add("SET", key+"config", `{"dnssec":true,"soa":{"ns":"ns1.zone.example.","mbox":"hostmaster.zone.example.","ttl":300,"refresh":3600,"retry":600,"expire":86400,"minttl":300}}`)
	return client.Do(ctx, &b)
}

// turn changes a name, adds one and removes it.
func (z *redisZone) turn(ctx context.Context, client *redis.Client, conn net.Conn, turn int) error {
	key := string(z.schema) + ":zones:zone.example."
	old, added := fmt.Sprintf("h%06d", rand.IntN(z.names)), fmt.Sprintf("new%d", turn)
	ip := fmt.Sprintf("198.51.100.%d", turn%250)
	text := `{"ttl":300,"records":[{"ip":"` + ip + `"}]}`
	put := func(label string) [][]string {
		if z.schema == redins.Redins {
			return [][]string{{"HSET", key, label, `{"a":` + text + `}`}}
		}
		return [][]string{{"SET", key + ":labels:" + label + ":A", text}, {"SADD", key + ":labels", label}}
	}
	take := [][]string{{"HDEL", key, added}}
	if z.schema == redins.Z42 {
		take = [][]string{{"DEL", key + ":labels:" + added + ":A"}, {"SREM", key + ":labels", added}}
	}
	for _, step := range []struct {
		what, name, want string
		do               [][]string
	}{
		{"changed", old, ip, put(old)},
		{"added", added, ip, put(added)},
		{"removed", added, "NXDOMAIN", take},
	} {
		time.Sleep(redisZonePause)
		if err := ctx.Err(); err != nil {
			return err
		}
		began := time.Now()
		var b redis.Batch
		for _, words := range step.do {
			b.Add(words...)
		}
		if err := client.Do(ctx, &b); err != nil {
			return err
		}
		if err := until(conn, step.name+".zone.example.", step.want); err != nil {
			return fmt.Errorf("%s %s: %w", step.what, step.name, err)
		}
		z.took[step.what] = append(z.took[step.what], float64(time.Since(began).Microseconds())/1000)
	}
	return nil
}

// until queries a name's address until the answer, an address or a response code, is the
// wanted one.
func until(conn net.Conn, name, want string) error {
	began := time.Now()
	buf := make([]byte, 4096)
	wire, err := dns.Name(name)
	if err != nil {
		return err
	}
	for time.Since(began) < 30*time.Second {
		if _, err := conn.Write(dns.AppendQuery(nil, wire, dns.TypeA, 0)); err != nil && time.Since(began) > 10*time.Second {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		n, err := conn.Read(buf)
		if err != nil {
			continue
		}
		// A late answer to a previous query counts, too.
		if n < 16+len(wire) || !bytes.EqualFold(buf[12:12+len(wire)], wire) {
			continue
		}
		got := dns.RcodeName(uint16(buf[3] & 15))
		if x, err := dns.ReadRecord(buf[:n], 16+len(wire)); err == nil && buf[7] == 1 && x.Type == dns.TypeA {
			got = string(dns.AppendData(nil, buf[:n], x))
		}
		if got == want {
			return nil
		}
		time.Sleep(300 * time.Microsecond)
	}
	return errors.New("the answer is not what Redis has after 30 s")
}

func (r *rig) printRedisZones(w io.Writer, all []*redisZone, opt options) error {
	program, err := find("redis-server")
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . redis-zone -rounds %d`: %d changes of each kind, the name server answering %s queries a second meanwhile on one core, redis-server %s and the load on the other. shuultuur %s.\n\n",
		redisZoneAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.rounds*redisZoneTurns, figure(redisZoneRate), versionOf(program, []string{"--version"}), r.revision())
	b.WriteString("| layout | names | changed: median ms | longest | added: median ms | longest | removed: median ms | longest | MB resident before | most | queries lost |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	var verdicts strings.Builder
	for _, z := range all {
		what := figure(float64(z.names))
		if z.signed {
			what += ", signed"
		}
		fmt.Fprintf(&b, "| %s | %s |", z.schema, what)
		worst := 0.0
		for _, what := range []string{"changed", "added", "removed"} {
			slices.Sort(z.took[what])
			longest := slices.Max(z.took[what])
			worst = max(worst, longest)
			fmt.Fprintf(&b, " %.1f | %.1f |", middle(z.took[what]), longest)
		}
		fmt.Fprintf(&b, " %.1f | %.1f | %d |\n", z.before, z.most, z.lost)
		if z.names == 100_000 {
			target := float64(redisZoneTarget.Milliseconds())
			fmt.Fprintf(&verdicts, "* target ≤ %g ms for %s names, %s, the longest: %.1f: **%s**\n", target, what, z.schema, worst, verdict(worst <= target))
			if !z.signed {
				fmt.Fprintf(&verdicts, "* target ≤ %d MB resident for %s names, %s, at most: %.1f: **%s**\n", redisZoneMemory, what, z.schema, z.most, verdict(z.most <= redisZoneMemory))
			}
		}
	}
	fmt.Fprintf(&b, "\n%s\n", verdicts.String())
	_, err = w.Write(b.Bytes())
	return err
}

// serveRedis is the argument with which this program is the name server of zones in Redis.
const serveRedis = "-serve-redis"

// serveRedisZones serves them: args are the address to listen on, Redis, its database and the
// schema.
func serveRedisZones(ctx context.Context, args []string) error {
	db, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	zones := zone.NewResponder()
	ring, err := sign.NewRing(sign.Config{})
	if err != nil {
		return err
	}
	signed := func(z *zone.Zone, keys redins.Keys) (*zone.Zone, error) {
		signer, err := ring.Signer(z.Origin, keys.ZSKPublic, keys.ZSKPrivate, keys.KSKPublic, keys.KSKPrivate)
		if err != nil {
			return nil, err
		}
		z.Signer = signer
		return z, nil
	}
	publisher, err := transfer.New(transfer.Config{}, zones, nil, nil, log)
	if err != nil {
		return err
	}
	source, err := redins.New(redins.Config{Redis: redis.Config{Addresses: []string{args[1]}, DB: db}, Schema: redins.Schema(args[3])}, "", publisher, nil, signed, nil, log)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- source.Run(ctx) }()
	for source.Stats().Reconciled.IsZero() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	debug.FreeOSMemory() // garbage of reading the zones
	return errors.Join(answerBy(ctx, args[0], zones, log), <-done)
}
