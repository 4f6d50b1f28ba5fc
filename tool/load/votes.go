package load

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const votesHelp = `
Sends votes to URL, where votes are taken: http://127.0.0.1:8083 (https too).
Clients send a vote on each of their connections, wait for all answers, and
repeat. A vote without an answer is sent again with the same identifier, also
while the server is away. Without -count and -seconds a run takes 10 seconds.`

// VotesConfig configures a run of votes.
type VotesConfig struct {
	URL      string
	Clients  int           // each with Parallel connections; default 1
	Parallel int           // default 200
	Count    int64         // votes; 0 for no limit
	Duration time.Duration // 0 is no limit
	Close    bool          // a new connection for each vote
	Patience time.Duration // how long a vote is retried; default 1 minute
	Verify   string        // URL of the admin address, for the proof
	TLS      *tls.Config
}

// A VotesReport has the measurements of a run of votes.
type VotesReport struct {
	Sent         int64         `json:"sent"`         // votes with a new identifier
	Acknowledged int64         `json:"acknowledged"` // distinct identifiers answered with 202
	Refused      int64         `json:"refused"`      // responses with another status; retried after 503 and 429
	Again        int64         `json:"again"`        // votes sent again after no response
	Elapsed      time.Duration `json:"elapsed"`
	Rate         float64       `json:"rate"` // acknowledged votes per second
	P50          time.Duration `json:"p50"`
	P99          time.Duration `json:"p99"`
	Worst        time.Duration `json:"worst"`
	// Results of the proof; -1 without one.
	Counted int64         `json:"counted"` // votes of this run that the server counts
	Missing int64         `json:"missing"` // acknowledged votes that are not counted
	Settled time.Duration `json:"settled"` // from the last response until all were counted
}

type uuid [16]byte

func (u uuid) append(dst []byte) []byte {
	for n, part := range [...][]byte{u[:4], u[4:6], u[6:8], u[8:10], u[10:]} {
		if n > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

// A votesRun is a run in progress.
type votesRun struct {
	config  VotesConfig
	host    string // host of the server
	secure  bool
	subject string // the host name that all votes of this run concern
	end     time.Time

	mu   sync.Mutex
	left int64 // votes left to send
}

// take reserves a vote to send.
func (r *votesRun) take() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.config.Count > 0 {
		if r.left == 0 {
			return false
		}
		r.left--
	}
	return r.end.IsZero() || time.Now().Before(r.end)
}

// A voter is one connection.
type voter struct {
	r     *votesRun
	rand  *mathrand.ChaCha8
	conn  net.Conn
	in    *bufio.Reader
	out   []byte
	acked []uuid
	open  []uuid // sent but never answered
	took  []time.Duration

	id    uuid // of the current vote
	since time.Time
	err   error // error of sending it

	sent, refused, again int64
}

// Votes executes a run.
func Votes(ctx context.Context, c VotesConfig) (*VotesReport, []string, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, nil, fmt.Errorf("%q is not a URL like http://127.0.0.1:8083", c.URL)
	}
	if host := u.Hostname(); !isLoopback(host) {
		return nil, nil, fmt.Errorf("%q is not this machine: votes for a test do not go to others", host)
	}
	if c.Clients == 0 {
		c.Clients = 1
	}
	if c.Parallel == 0 {
		c.Parallel = 200
	}
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	if c.Count == 0 && c.Duration == 0 {
		c.Duration = 10 * time.Second
	}
	r := &votesRun{config: c, host: u.Host, secure: u.Scheme == "https", left: c.Count,
		subject: "load-" + strings.ToLower(rand.Text()[:12]) + ".example"}
	begin := time.Now()
	if c.Duration > 0 {
		r.end = begin.Add(c.Duration)
	}
	voters := make([]*voter, c.Clients*c.Parallel)
	var all sync.WaitGroup
	for n := range voters {
		var seed [32]byte
		rand.Read(seed[:])
		voters[n] = &voter{r: r, rand: mathrand.NewChaCha8(seed)}
	}
	for client := range slices.Chunk(voters, c.Parallel) {
		all.Go(func() { rounds(ctx, client) })
	}
	all.Wait()
	report, ids := r.report(voters, time.Since(begin))
	if c.Verify != "" {
		err = r.verify(ctx, voters, report)
	}
	return report, ids, err
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// rounds makes a client send a vote on each of its connections, wait for all responses, and
// repeat. It sends one vote after another and then reads the responses in the same order,
// because a goroutine for each would cost as much as the system calls.
func rounds(ctx context.Context, voters []*voter) {
	defer func() {
		for _, v := range voters {
			v.close()
		}
	}()
	for ctx.Err() == nil {
		sent := 0
		for sent < len(voters) && voters[0].r.take() {
			voters[sent].begin(ctx)
			sent++
		}
		waiting := slices.Clone(voters[:sent])
		for try := 1; len(waiting) > 0; try++ {
			waiting = slices.DeleteFunc(waiting, (*voter).readAnswer)
			if len(waiting) == 0 {
				break
			}
			sleepUntil(ctx, time.Now().Add(min(time.Duration(try)*20*time.Millisecond, time.Second)))
			waiting = slices.DeleteFunc(waiting, func(v *voter) bool { return !v.repeat(ctx) })
		}
		if sent < len(voters) {
			break
		}
	}
}

func (v *voter) close() {
	if v.conn != nil {
		v.conn.Close()
		v.conn = nil
	}
}

// newID makes an identifier (RFC 9562 section 5.7).
func (v *voter) newID() (id uuid) {
	ms := uint64(time.Now().UnixMilli())
	for n := range 6 {
		id[n] = byte(ms >> (40 - 8*n))
	}
	a, b := v.rand.Uint64(), v.rand.Uint64()
	for n := range 8 {
		id[8+n] = byte(a >> (8 * n))
	}
	id[6], id[7] = 0x70|byte(b)&0x0f, byte(b>>8)
	id[8] = id[8]&0x3f | 0x80
	return id
}

// begin sends a new vote.
func (v *voter) begin(ctx context.Context) {
	v.sent++
	v.id, v.since = v.newID(), time.Now()
	v.err = v.send(ctx)
}

// readAnswer reads the response to the vote, and reports whether the vote is done: acknowledged,
// or finally refused.
func (v *voter) readAnswer() bool {
	status := 0
	if v.err == nil {
		status, v.err = readStatus(v.in)
	}
	if v.err != nil {
		v.close()
		return false
	}
	switch status {
	case http.StatusAccepted:
		v.acked = append(v.acked, v.id)
		v.took = append(v.took, time.Since(v.since))
		return true
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		v.refused++
		return false
	}
	v.refused++
	v.open = append(v.open, v.id)
	return true
}

// repeat sends the vote again. It returns false after Patience.
func (v *voter) repeat(ctx context.Context) bool {
	if ctx.Err() != nil || time.Since(v.since) > v.r.config.Patience {
		v.open = append(v.open, v.id)
		return false
	}
	v.again++
	v.err = v.send(ctx)
	return true
}

// send sends the vote.
func (v *voter) send(ctx context.Context) error {
	if v.r.config.Close {
		v.close()
	}
	if v.conn == nil {
		if err := v.dial(ctx); err != nil {
			return err
		}
	}
	_ = v.conn.SetDeadline(time.Now().Add(30 * time.Second))
	b := append(v.out[:0], "POST /votes HTTP/1.1\r\nHost: "...)
	b = append(b, v.r.host...)
	if v.r.config.Close {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(`{"id":"","vote":"dangerous","url":""}`)+36+len(v.r.subject)), 10)
	b = append(b, "\r\n\r\n{\"id\":\""...)
	b = v.id.append(b)
	b = append(b, `","vote":"dangerous","url":"`...)
	b = append(b, v.r.subject...)
	b = append(b, `"}`...)
	v.out = b
	_, err := v.conn.Write(b)
	return err
}

func (v *voter) dial(ctx context.Context) error {
	d := net.Dialer{Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "tcp", v.r.host)
	if err != nil {
		return err
	}
	if v.r.secure {
		c = tls.Client(c, v.r.config.TLS)
	}
	v.conn = c
	if v.in == nil {
		v.in = bufio.NewReaderSize(c, 2<<10)
	}
	v.in.Reset(c)
	return nil
}

// readStatus reads a response and returns its status.
func readStatus(in *bufio.Reader) (status int, err error) {
	status, _, err = answerOf(in, false)
	return status, err
}

func answerOf(in *bufio.Reader, keep bool) (status int, body []byte, err error) {
	length := 0
	for n := 0; ; n++ {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case n == 0:
			if len(line) < 12 {
				return 0, nil, fmt.Errorf("%.40q is not a response", line)
			}
			if status, err = strconv.Atoi(string(line[9:12])); err != nil {
				return 0, nil, err
			}
		case len(line) == 0:
			if keep {
				body = make([]byte, length)
				_, err = io.ReadFull(in, body)
			} else {
				_, err = in.Discard(length)
			}
			return status, body, err
		case len(line) > 16 && bytes.EqualFold(line[:16], []byte("Content-Length: ")):
			if length, err = strconv.Atoi(string(line[16:])); err != nil || length < 0 || length > 1<<20 {
				return 0, nil, fmt.Errorf("%.40q is not a length", line)
			}
		}
	}
}

func (r *votesRun) report(voters []*voter, took time.Duration) (*VotesReport, []string) {
	s := &VotesReport{Elapsed: took, Counted: -1, Missing: -1}
	var times []time.Duration
	var ids []string
	for _, v := range voters {
		s.Sent += v.sent
		s.Refused += v.refused
		s.Again += v.again
		s.Acknowledged += int64(len(v.acked))
		times = append(times, v.took...)
		for _, id := range v.acked {
			ids = append(ids, string(id.append(nil)))
		}
	}
	slices.Sort(times)
	if n := len(times); n > 0 {
		s.P50, s.P99, s.Worst = times[n/2], times[n*99/100], times[n-1]
	}
	s.Rate = float64(s.Acknowledged) / took.Seconds()
	return s, ids
}

// verify proves that each acknowledged vote is counted once: every identifier is counted, and
// there are as many votes as identifiers.
func (r *votesRun) verify(ctx context.Context, voters []*voter, s *VotesReport) error {
	begin := time.Now()
	for end := begin.Add(r.config.Patience); ; {
		n, err := r.askCounted(ctx)
		if err == nil && n >= s.Acknowledged {
			break
		}
		if time.Now().After(end) {
			if err == nil {
				break // and report which are missing
			}
			return fmt.Errorf("asking how many votes are counted: %w", err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.Settled = time.Since(begin)
	var all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	var counted int64
	var missing []uuid
	for part := range slices.Chunk(voters, (len(voters)+3)/4) {
		all.Go(func() {
			n, m, err := r.queryStates(ctx, part)
			mu.Lock()
			defer mu.Unlock()
			counted, missing = counted+n, append(missing, m...)
			errs = append(errs, err)
		})
	}
	all.Wait()
	s.Missing = int64(len(missing))
	n, err := r.askCounted(ctx)
	s.Counted = n
	if err = errors.Join(append(errs, err)...); err != nil {
		return err
	}
	switch {
	case len(missing) > 0:
		return fmt.Errorf("%d acknowledged votes are not counted, the first is %s", len(missing), missing[0].append(nil))
	case n < s.Acknowledged:
		return fmt.Errorf("%d votes are counted after %v, %d were acknowledged", n, r.config.Patience, s.Acknowledged)
	case n != counted:
		return fmt.Errorf("%d votes are counted for %d identifiers", n, counted)
	}
	return nil
}

// askCounted asks the admin address for the number of counted votes of this run.
func (r *votesRun) askCounted(ctx context.Context) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, "GET", strings.TrimSuffix(r.config.Verify, "/")+"/votes/counts?by=host&name="+r.subject, nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	var all []struct {
		Key   string `json:"key"`
		Votes int64  `json:"votes"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&all); err != nil || res.StatusCode != 200 {
		return 0, fmt.Errorf("%s answers %s: %w", r.config.Verify, res.Status, err)
	}
	for _, t := range all {
		if t.Key == r.subject {
			return t.Votes, nil
		}
	}
	return 0, nil
}

// queryStates queries the state of each vote, some concurrently. missing are acknowledged votes that
// are not counted.
func (r *votesRun) queryStates(ctx context.Context, voters []*voter) (counted int64, missing []uuid, err error) {
	v := &voter{r: r}
	defer v.close()
	ask := func(ids []uuid, acked bool) error {
		for part := range slices.Chunk(ids, 64) {
			if v.conn == nil {
				if err := v.dial(ctx); err != nil {
					return err
				}
			}
			_ = v.conn.SetDeadline(time.Now().Add(time.Minute))
			b := v.out[:0]
			for _, id := range part {
				b = id.append(append(b, "GET /votes/"...))
				b = append(append(append(b, " HTTP/1.1\r\nHost: "...), r.host...), "\r\n\r\n"...)
			}
			v.out = b
			if _, err := v.conn.Write(b); err != nil {
				return err
			}
			for _, id := range part {
				status, body, err := answerOf(v.in, true)
				if err != nil {
					return err
				}
				is := status == 200 && (bytes.Contains(body, []byte(`"counted"`)) || bytes.Contains(body, []byte(`"decided"`)))
				if is {
					counted++
				} else if acked {
					missing = append(missing, id)
				}
			}
		}
		return nil
	}
	for _, w := range voters {
		if err := errors.Join(ask(w.acked, true), ask(w.open, false)); err != nil {
			return counted, missing, fmt.Errorf("asking for the state of votes: %w", err)
		}
	}
	return counted, missing, nil
}

func votesCommand(fs *flag.FlagSet) func(context.Context, []string, io.Writer, io.Writer) error {
	var c VotesConfig
	var seconds float64
	var ids, js string
	fs.IntVar(&c.Clients, "clients", 1, "run `N` clients")
	fs.IntVar(&c.Parallel, "parallel", 200, "a client sends `N` votes, waits for all, and repeats")
	fs.Int64Var(&c.Count, "count", 0, "end after `N` votes")
	fs.Float64Var(&seconds, "seconds", 0, "end after `N` seconds (10 if -count is not given either)")
	fs.BoolVar(&c.Close, "close", false, "use a connection for each vote")
	fs.DurationVar(&c.Patience, "patience", time.Minute, "send a vote without an answer again for this `time`, and wait as long for all to be counted")
	fs.StringVar(&c.Verify, "verify", "", "prove at the admin address `URL` that each acknowledged vote is counted once")
	fs.StringVar(&ids, "ids", "", "write acknowledged identifiers to `file`")
	fs.StringVar(&js, "json", "", "write the report as JSON to `file` (- for stdout, in place of the text)")
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		c.URL, c.Duration = args[0], time.Duration(seconds*float64(time.Second))
		c.TLS = &tls.Config{InsecureSkipVerify: true} // this machine
		report, all, err := Votes(ctx, c)
		if report == nil {
			return err
		}
		if ids != "" {
			err = errors.Join(err, os.WriteFile(ids, []byte(strings.Join(all, "\n")+"\n"), 0o644))
		}
		return errors.Join(err, report.write(js, stdout))
	}
}

// write prints the report, and writes it as JSON to a file unless that is "". For "-", it
// writes JSON instead of text.
func (s *VotesReport) write(file string, stdout io.Writer) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if file == "-" {
		_, err := fmt.Fprintf(stdout, "%s\n", text)
		return err
	}
	if file != "" {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	s.print(stdout)
	return err
}

func (s *VotesReport) print(w io.Writer) {
	fmt.Fprintf(w, "%d votes acknowledged in %.2f s, %.0f a second; %d sent, %d refused, %d sent again\n",
		s.Acknowledged, s.Elapsed.Seconds(), s.Rate, s.Sent, s.Refused, s.Again)
	fmt.Fprintf(w, "answers: p50 %v, p99 %v, worst %v\n", s.P50.Round(10*time.Microsecond), s.P99.Round(10*time.Microsecond), s.Worst.Round(10*time.Microsecond))
	if s.Counted >= 0 {
		fmt.Fprintf(w, "counted: %d, missing: %d, %.1f s after the last answer\n", s.Counted, s.Missing, s.Settled.Seconds())
	}
}
