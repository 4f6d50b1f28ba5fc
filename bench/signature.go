package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"shuultuur/lib/suricata/address"
	"shuultuur/lib/suricata/engine"
	"shuultuur/lib/suricata/lua"
	"shuultuur/lib/suricata/rule"
	"shuultuur/tool/capture"
)

const signatureAbout = "Signature rules on a generated capture, one core"

// capturePayload is the TCP payload of the generated capture.
const capturePayload = 300 << 20

// signatures measures the engine on a capture that it generates: HTTP/1.1 on kept-alive
// connections, pages, scripts, JSON and pictures, 40 % gzip, 30 % chunked. The traffic is
// benign, so that alerts cost nothing. Processor time is that of this process, with one
// processor.
func signatures(ctx context.Context, o options, out io.Writer) error {
	data := os.Getenv("SHUULTUUR_DATA")
	if data == "" {
		return errors.New("no rules: set SHUULTUUR_DATA to a folder with rules/et-open.rules.gz")
	}
	name := filepath.Join(os.TempDir(), fmt.Sprintf("shuultuur-bench-%d.pcap", os.Getpid()))
	defer os.Remove(name)
	exchanges, err := writeCapture(name, capturePayload)
	if err != nil {
		return err
	}
	all, _, err := rule.NewParser().ReadFiles(filepath.Join(data, "rules", "et-open.rules.gz"))
	if err != nil {
		return err
	}
	http, _, err := rule.NewParser().ReadFiles(filepath.Join(data, "rules", "et-open-http.rules.gz"))
	if err != nil {
		return err
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(http), func(i, j int) { http[i], http[j] = http[j], http[i] })
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var rows []*signatureRow
	for _, rules := range [][]*rule.Rule{nil, http[:1000], http[:10000], http, all} {
		start := processorTime()
		e, err := compiled(rules)
		if err != nil {
			return err
		}
		var m runtime.MemStats
		row := &signatureRow{engine: e, built: processorTime() - start}
		runtime.GC()
		runtime.ReadMemStats(&m)
		row.heap = m.HeapAlloc
		rows = append(rows, row)
	}
	for range o.rounds {
		for _, row := range rows {
			start := processorTime()
			payload, err := replayCapture(ctx, row.engine, name, 1)
			if err != nil {
				return err
			}
			row.rates = append(row.rates, float64(payload)/1e6/(processorTime()-start).Seconds())
		}
	}
	fmt.Fprintf(out, "## %s\n\n%d exchanges, %d MiB of payload, medians of %d rounds by turns.\n\n| rules | payload MB/s | slowest–fastest | time against no rules | rules tried for each exchange | expressions for each exchange | compiled in CPU s | heap MiB |\n|--:|--:|--:|--:|--:|--:|--:|--:|\n", signatureAbout, exchanges, capturePayload>>20, o.rounds)
	for _, row := range rows {
		row.write(out, rows[0], exchanges*o.rounds)
	}
	fmt.Fprintln(out)
	return signatureCores(ctx, o.rounds, http, name, out)
}

// A signatureRow is a number of rules with what was measured.
type signatureRow struct {
	engine *engine.Engine
	built  time.Duration
	heap   uint64    // bytes, with the rules of the rows before
	rates  []float64 // payload in MB/s of processor time, by round
}

// write prints the row. none is the row without rules.
func (r *signatureRow) write(out io.Writer, none *signatureRow, exchanges int) {
	var times []float64
	for i := range r.rates {
		times = append(times, none.rates[i]/r.rates[i])
	}
	rates := slices.Sorted(slices.Values(r.rates))
	slices.Sort(times)
	n := r.engine.Counters()
	fmt.Fprintf(out, "| %d | %.0f | %.0f–%.0f | %.2f ×%s | %.2f | %.3f | %.2f | %d |\n", r.engine.Rules(), middle(rates), rates[0], rates[len(rates)-1],
		middle(times), spread(times, 2), float64(n.Checks.Load())/float64(exchanges), float64(n.Regexps.Load())/float64(exchanges), r.built.Seconds(), r.heap>>20)
}

// signatureCores compares the time by the clock on one core with that on two, by turns.
func signatureCores(ctx context.Context, rounds int, rules []*rule.Rule, name string, out io.Writer) error {
	e, err := compiled(rules)
	if err != nil {
		return err
	}
	var took [2][]float64
	var ratios []float64
	for range rounds {
		for i := range took {
			runtime.GOMAXPROCS(i + 1)
			start := time.Now()
			if _, err := replayCapture(ctx, e, name, i+1); err != nil {
				return err
			}
			took[i] = append(took[i], time.Since(start).Seconds())
		}
		ratios = append(ratios, took[0][len(took[0])-1]/took[1][len(took[1])-1])
	}
	slices.Sort(ratios)
	fmt.Fprintf(out, "%d rules on two cores: %.2f × one by the clock (%.2f–%.2f, %d rounds).\n\n", e.Rules(), ratios[rounds/2], ratios[0], ratios[rounds-1], rounds)
	return nil
}

// compiled returns an engine with these rules for captures.
func compiled(rules []*rule.Rule) (*engine.Engine, error) {
	vars, ports := address.Groups()
	vars["HOME_NET"] = "10.0.0.0/8"
	e, _, err := engine.New(engine.Config{Rules: rules, Vars: vars, Ports: ports, Packets: true, Scripts: lua.NewPool(lua.Limits{}).Load})
	return e, err
}

// replayCapture runs an engine over a capture and returns the bytes of its payload.
func replayCapture(ctx context.Context, e *engine.Engine, name string, cores int) (uint64, error) {
	run := capture.New(capture.Config{Cores: cores}, e, capture.NewOutput(nil, nil))
	if err := run.File(ctx, name); err != nil {
		return 0, err
	}
	if err := run.Close(); err != nil {
		return 0, err
	}
	return uint64(run.Stats().Payload()), nil
}

// A captureWriter writes TCP segments into a pcap file.
type captureWriter struct {
	w       *bufio.Writer
	r       *rand.Rand
	now     time.Time
	payload int
}

// writeCapture generates a capture with this much payload and returns the number of its
// exchanges.
func writeCapture(name string, payload int) (exchanges int, err error) {
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	c := &captureWriter{w: bufio.NewWriterSize(f, 1<<20), r: rand.New(rand.NewPCG(7, 8)), now: time.Unix(1700000000, 0)}
	head := make([]byte, 24)
	binary.LittleEndian.PutUint32(head, 0xa1b2c3d4)
	binary.LittleEndian.PutUint16(head[4:], 2)
	binary.LittleEndian.PutUint16(head[6:], 4)
	binary.LittleEndian.PutUint32(head[16:], 1<<16)
	binary.LittleEndian.PutUint32(head[20:], 101) // raw IP
	if _, err := c.w.Write(head); err != nil {
		return 0, err
	}
	bodies := c.bodies(300)
	for conn := 0; c.payload < payload; conn++ {
		exchanges += c.connection(conn, bodies)
	}
	return exchanges, c.w.Flush()
}

// A generatedBody is a generated body with its type, plain and compressed.
type generatedBody struct {
	kind        string
	plain, gzip []byte
}

// words are the vocabulary of generated text.
var words = strings.Fields(`the of and to in is that for with as this on are from page site content main item list value data user name time
	link home news about contact search result image title function return var document window element event class style color width
	height margin padding border table row cell text input button form label option select script module export import const`)

// bodies generates bodies: 30 % pages, 20 % scripts, 18 % JSON, 32 % pictures.
func (c *captureWriter) bodies(n int) (list []generatedBody) {
	for i := range n {
		var b bytes.Buffer
		size := 2000 + int(c.r.ExpFloat64()*14000)
		g := generatedBody{}
		word := func() string { return words[c.r.IntN(len(words))] }
		switch p := i % 100; {
		case p < 30:
			g.kind = "text/html; charset=utf-8"
			b.WriteString("<!DOCTYPE html><html><head><title>" + word() + "</title></head><body>")
			for b.Len() < size {
				fmt.Fprintf(&b, "<div class=\"%s-%d\"><a href=\"/%s/%d.html\">%s %s</a> %s %s %s</div>\n", word(), c.r.IntN(99), word(), c.r.IntN(9999), word(), word(), word(), word(), word())
			}
			b.WriteString("</body></html>")
		case p < 50:
			g.kind = "application/javascript"
			for b.Len() < size {
				fmt.Fprintf(&b, "function %s%d(%s){var %s=document.getElementById(\"%s\");return %s.%s(%d);}\n", word(), c.r.IntN(999), word(), word(), word(), word(), word(), c.r.IntN(9999))
			}
		case p < 68:
			g.kind = "application/json"
			b.WriteString("[")
			for b.Len() < size {
				fmt.Fprintf(&b, "{\"%s\":%d,\"%s\":\"%s %s\",\"id\":\"%08x\"},", word(), c.r.IntN(99999), word(), word(), word(), c.r.Uint32())
			}
			b.WriteString("{}]")
		default:
			g.kind = "image/png"
			b.WriteString("\x89PNG\r\n\x1a\n")
			for b.Len() < size {
				_ = binary.Write(&b, binary.LittleEndian, c.r.Uint64()) // a Buffer accepts everything
			}
		}
		g.plain = b.Bytes()
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		_, _ = w.Write(g.plain) // as above
		_ = w.Close()
		g.gzip = z.Bytes()
		list = append(list, g)
	}
	return list
}

// connection writes a connection with 1 to 12 exchanges.
func (c *captureWriter) connection(n int, bodies []generatedBody) int {
	port := uint16(20000 + n%40000)
	server := [4]byte{203, 0, byte(n >> 8), byte(n)}
	seq := [2]uint32{c.r.Uint32(), c.r.Uint32()}
	send := func(side int, flags byte, p []byte) {
		c.segment(port, server, side, flags, seq[side], seq[1-side], p)
		seq[side] += uint32(len(p))
		if flags&3 != 0 {
			seq[side]++
		}
	}
	send(0, 2, nil)
	send(1, 0x12, nil)
	send(0, 0x10, nil)
	k := 1 + c.r.IntN(12)
	for range k {
		b := bodies[c.r.IntN(len(bodies))]
		q := fmt.Sprintf("GET /%s/%s/%d?%s=%d&s=%s HTTP/1.1\r\nHost: www.%s%d.example\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0\r\nAccept: */*\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate\r\nReferer: http://www.%s.example/%s\r\nCookie: sid=%016x; lang=en\r\nConnection: keep-alive\r\n\r\n",
			words[c.r.IntN(len(words))], words[c.r.IntN(len(words))], c.r.IntN(9999), words[c.r.IntN(len(words))], c.r.IntN(99), words[c.r.IntN(len(words))], words[c.r.IntN(len(words))], c.r.IntN(500), words[c.r.IntN(len(words))], words[c.r.IntN(len(words))], c.r.Uint64())
		send(0, 0x18, []byte(q))
		var s bytes.Buffer
		fmt.Fprintf(&s, "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Tue, 14 Nov 2023 22:13:20 GMT\r\nContent-Type: %s\r\nConnection: keep-alive\r\n", b.kind)
		body := b.plain
		if c.r.IntN(10) < 4 {
			s.WriteString("Content-Encoding: gzip\r\n")
			body = b.gzip
		}
		if c.r.IntN(10) < 3 {
			s.WriteString("Transfer-Encoding: chunked\r\n\r\n")
			for len(body) > 0 {
				m := min(len(body), 4096)
				fmt.Fprintf(&s, "%x\r\n%s\r\n", m, body[:m])
				body = body[m:]
			}
			s.WriteString("0\r\n\r\n")
		} else {
			fmt.Fprintf(&s, "Content-Length: %d\r\n\r\n", len(body))
			s.Write(body)
		}
		for p := s.Bytes(); len(p) > 0; {
			m := min(len(p), 1448)
			send(1, 0x10, p[:m])
			p = p[m:]
		}
		send(0, 0x10, nil)
	}
	send(0, 0x11, nil)
	send(1, 0x11, nil)
	send(0, 0x10, nil)
	return k
}

// segment writes a TCP segment from the client (side 0) or the server.
func (c *captureWriter) segment(port uint16, server [4]byte, side int, flags byte, seq, ack uint32, p []byte) {
	c.now = c.now.Add(20 * time.Microsecond)
	c.payload += len(p)
	b := make([]byte, 16+40, 16+40+len(p))
	binary.LittleEndian.PutUint32(b, uint32(c.now.Unix()))
	binary.LittleEndian.PutUint32(b[4:], uint32(c.now.Nanosecond()/1000))
	binary.LittleEndian.PutUint32(b[8:], uint32(40+len(p)))
	binary.LittleEndian.PutUint32(b[12:], uint32(40+len(p)))
	ip := b[16:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(40+len(p)))
	client := [4]byte{10, 0, 0, byte(port)}
	ports := [2]uint16{port, 80}
	ends := [2][4]byte{client, server}
	copy(ip[12:], ends[side][:])
	copy(ip[16:], ends[1-side][:])
	binary.BigEndian.PutUint16(ip[20:], ports[side])
	binary.BigEndian.PutUint16(ip[22:], ports[1-side])
	binary.BigEndian.PutUint32(ip[24:], seq)
	if flags&0x10 != 0 {
		binary.BigEndian.PutUint32(ip[28:], ack)
	}
	ip[32], ip[33] = 0x50, flags
	binary.BigEndian.PutUint16(ip[34:], 65535)
	_, _ = c.w.Write(append(b, p...)) // Flush returns the first error
}
