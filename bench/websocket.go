package main

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const websocketAbout = "WebSockets: memory of 10,000 that wait, and 1,000 that talk, against a relay that reads nothing"

// Every conversation needs two files in the proxy, and two in this process. If the limit of
// open files is lower, fewer are opened, and the table says so.

const (
	socketsIdle   = 10_000
	socketsBusy   = 1000
	socketsTarget = 10                // kB per idle one: 100 MB for 10,000
	socketsWait   = 130 * time.Second // Go collects garbage every two minutes if nothing happens
)

// sockets are the measurements of one peer.
type sockets struct {
	before, fresh float64   // resident MB without the idle ones, and after their first echo
	after         float64   // resident MB when they have waited
	rates         []float64 // messages there and back per second, of the rounds
	costs         []float64 // µs of processor time per message
	p99           []float64 // ms there and back
}

// websockets opens conversations with an echo through the gateway, which reads every message,
// and through haproxy as a relay of bytes, which reads none.
func websockets(ctx context.Context, opt options, out io.Writer) error {
	idle, err := socketsAllowed()
	if err != nil {
		return err
	}
	r, err := newRig(ctx, false)
	if err != nil {
		return err
	}
	defer r.close()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer echo.Close()
	go echoSockets(echo)
	r.origin = echo.Addr().String() // haproxy forwards to it
	peers, missing, err := (&peerRig{r}).startPeers([]string{subject, "haproxy"})
	if err != nil {
		return err
	}
	if err := r.pinSelf(loadCore); err != nil {
		return err
	}
	of := map[string]*sockets{}
	for _, p := range peers {
		if of[p.name], err = (&socketRig{r}).waitingSockets(p, idle); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	for round := range opt.rounds {
		for _, p := range peers {
			if err := (&socketRig{r}).talkingSockets(p, opt.seconds, of[p.name]); err != nil {
				return fmt.Errorf("round %d of %s: %w", round+1, p.name, err)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %s\n`go run -C bench . websocket -rounds %d -seconds %g`: %d conversations that each echoed one message and wait for %s; then %d that send a message of JSON (%d bytes) and wait for its echo, by turns, medians with range; load and origin on core %s, proxy on core %s.\n\n",
		websocketAbout, time.Now().UTC().Format("2006-01-02 15:04 MST"), machine("at the end"), opt.rounds, opt.seconds, idle, socketsWait, socketsBusy, len(socketMessage(0)), loadCore, proxyCore)
	b.WriteString("| peer | version | MB before | MB at once | MB waiting | kB each | messages/s | CPU µs/message | p99 ms |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, p := range peers {
		s := of[p.name]
		fmt.Fprintf(&b, "| %s | %s | %.0f | %.0f | %.0f | %.1f | %s | %s | %s |\n", p.name, p.about, s.before, s.fresh, s.after, (s.after-s.before)*1e3/float64(idle),
			ranged(s.rates, 0), ranged(s.costs, 1), ranged(s.p99, 1))
	}
	b.WriteString("\n")
	if s := of[subject]; s != nil {
		each := (s.after - s.before) * 1e3 / float64(idle)
		fmt.Fprintf(&b, "* target ≤ %d kB for each idle one, 100 MB for 10,000: %.1f kB: **%s**\n", socketsTarget, each, verdict(each <= socketsTarget))
		if h := of["haproxy"]; h != nil {
			ratios := make([]float64, len(s.costs))
			for i := range ratios {
				ratios[i] = s.costs[i] / h.costs[i]
			}
			fmt.Fprintf(&b, "* processor time for a message that is read, against one that is relayed: %s ×\n", ranged(ratios, 2))
		}
	}
	b.WriteString(leftOut(missing))
	_, err = io.WriteString(out, b.String()+"\n")
	return err
}

// ranged formats the median of values, with their range in brackets.
func ranged(v []float64, digits int) string {
	sorted := slices.Sorted(slices.Values(v))
	return fmt.Sprintf("%.*f%s", digits, middle(sorted), spread(sorted, digits))
}

// socketsAllowed returns how many conversations may wait, given the limit of open files.
func socketsAllowed() (int, error) {
	limit := syscall.Rlimit{}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	const others = 300 // listeners, logs, libraries
	if limit.Cur < 2*socketsBusy+others {
		return 0, fmt.Errorf("only %d files may be open, %d are needed: run `ulimit -n 21000` before", limit.Cur, 2*socketsBusy+others)
	}
	return int(min(socketsIdle, (limit.Cur-others)/2)), nil
}

// waitingSockets opens waiting conversations, and measures their cost.
func (r *socketRig) waitingSockets(p *peer, idle int) (*sockets, error) {
	warm, err := r.openSockets(p, 20)
	closeAll(warm)
	if err != nil {
		return nil, err
	}
	p.proc.settle(r.ctx)
	s := &sockets{before: p.proc.residentMB()}
	all, err := r.openSockets(p, idle)
	defer closeAll(all)
	if err != nil {
		return nil, err
	}
	p.proc.settle(r.ctx)
	s.fresh = p.proc.residentMB()
	select {
	case <-time.After(socketsWait):
	case <-r.ctx.Done():
	}
	s.after = p.proc.residentMB()
	fmt.Fprintf(os.Stderr, "%-12s %d idle: %.0f, %.0f and %.0f MB\n", p.name, idle, s.before, s.fresh, s.after)
	return s, r.ctx.Err()
}

// talkingSockets runs one round of conversations without pauses.
func (r *socketRig) talkingSockets(p *peer, seconds float64, s *sockets) error {
	all, err := r.openSockets(p, socketsBusy)
	defer closeAll(all)
	if err != nil {
		return err
	}
	p.proc.settle(r.ctx)
	var messages atomic.Int64
	errs, times := make([]error, len(all)), make([][]float64, len(all))
	before, start := p.proc.cpu(), time.Now()
	until := start.Add(time.Duration(seconds * float64(time.Second)))
	var wg sync.WaitGroup
	for i, c := range all {
		wg.Go(func() {
			for n := 1; time.Now().Before(until) && r.ctx.Err() == nil; n++ {
				sent := time.Now()
				if errs[i] = c.echo(i*1_000_000 + n); errs[i] != nil {
					return
				}
				times[i] = append(times[i], float64(time.Since(sent).Microseconds())/1000)
				messages.Add(1)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	took, cpu := time.Since(start), p.proc.cpu()-before
	n := float64(messages.Load())
	if n == 0 {
		return errors.New("no message came back")
	}
	sorted := slices.Sorted(slices.Values(slices.Concat(times...)))
	s.rates = append(s.rates, n/took.Seconds())
	s.costs = append(s.costs, float64(cpu.Microseconds())/n)
	s.p99 = append(s.p99, sorted[len(sorted)*99/100])
	fmt.Fprintf(os.Stderr, "%-12s %.0f messages/s, %.1f µs each\n", p.name, s.rates[len(s.rates)-1], s.costs[len(s.costs)-1])
	return r.ctx.Err()
}

// socket is one conversation of a client.
type socket struct {
	net.Conn
	br *bufio.Reader
}

// openSockets opens n conversations through p, each of which echoes once.
func (r *socketRig) openSockets(p *peer, n int) ([]*socket, error) {
	return openAll(r.rig, n, func() (*socket, error) { return r.openSocket(p) })
}

func (r *socketRig) openSocket(p *peer) (*socket, error) {
	addr, target := p.proxy, "http://"+r.origin+"/chat"
	if p.relay != "" {
		addr, target = p.relay, "/chat"
	}
	nc, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	_ = nc.SetDeadline(time.Now().Add(10 * time.Minute)) // cannot fail on a new connection
	c := &socket{nc, bufio.NewReaderSize(nc, 512)}
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", target, r.origin)
	res, err := http.ReadResponse(c.br, nil)
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("a WebSocket was answered %s", res.Status)
	}
	if err == nil {
		err = c.echo(0)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// socketMessage returns a plausible message, never the same twice.
func socketMessage(n int) string {
	return fmt.Sprintf(`{"type":"message","id":%09d,"from":"a reader","text":"The quick brown fox, number %09d, jumps over the lazy dog and looks for its %09d friends by the river."}`, n, n*7, n*13%1_000_000)
}

// echo sends a message in a masked text frame and reads the reply.
func (c *socket) echo(n int) error {
	text := socketMessage(n)
	key := [4]byte{1, 2, 3, 4}
	b := binary.BigEndian.AppendUint16([]byte{0x81, 0x80 | 126}, uint16(len(text)))
	b = append(b, key[:]...)
	for i := range len(text) {
		b = append(b, text[i]^key[i&3])
	}
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, got, err := readSocket(c.br)
	if err == nil && string(got) != text {
		err = fmt.Errorf("%q came back as %q", text, got)
	}
	return err
}

// readSocket reads one frame (RFC 6455 section 5.2) of less than 64 KiB.
func readSocket(br *bufio.Reader) (first byte, payload []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(br, head[:2]); err != nil {
		return 0, nil, err
	}
	n := int(head[1] & 0x7F)
	switch n {
	case 126:
		if _, err := io.ReadFull(br, head[2:4]); err != nil {
			return 0, nil, err
		}
		n = int(binary.BigEndian.Uint16(head[2:4]))
	case 127:
		return 0, nil, errors.New("a frame of more than 64 KiB")
	}
	var key [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(br, key[:]); err != nil {
			return 0, nil, err
		}
	}
	payload = make([]byte, n)
	if _, err := io.ReadFull(br, payload); err != nil {
		return 0, nil, err
	}
	for i := range payload {
		payload[i] ^= key[i&3]
	}
	return head[0], payload, nil
}

// echoSockets is the origin: it returns every message.
func echoSockets(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer c.Close()
			br := bufio.NewReaderSize(c, 512)
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
			fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
			for {
				first, text, err := readSocket(br)
				if err != nil || first&0x0F == 8 {
					return
				}
				head := []byte{first, byte(len(text))}
				if len(text) >= 126 {
					head = binary.BigEndian.AppendUint16([]byte{first, 126}, uint16(len(text)))
				}
				if _, err := c.Write(append(head, text...)); err != nil {
					return
				}
			}
		}()
	}
}
