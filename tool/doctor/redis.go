package doctor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	redisTime  = 3 * time.Second
	redisReply = 1 << 20 // most bytes of one reply
)

// redis asks a Redis server for its backlog and its behaviour when memory is
// full.
func (p subject) redis(ctx context.Context) []Finding {
	about := "redis " + p.cfg.Redis
	facts, err := askRedis(ctx, p.cfg.Redis, "tcp-backlog")
	if err != nil {
		return one(Finding{About: about, Level: Bad, Found: err.Error(), Wanted: "an answer",
			Why: "Gateways that share what they have learned need it.", Mend: []string{"redis-cli -u redis://" + p.cfg.Redis + " ping"}})
	}
	backlog := p.redisBacklog(facts)
	memory := Finding{About: "redis memory", Level: OK, Found: "maxmemory " + facts["maxmemory"] + ", " + facts["maxmemory_policy"]}
	cli := "redis-cli -u redis://" + p.cfg.Redis
	evicting := []string{"allkeys-lru", "allkeys-lfu", "allkeys-random", "volatile-lru", "volatile-lfu", "volatile-ttl", "volatile-random"}
	switch limit, err := strconv.ParseInt(facts["maxmemory"], 10, 64); {
	case err != nil:
		memory.Level, memory.Found = Unknown, "it does not say"
	case limit == 0:
		memory.Level, memory.Wanted = Low, "a limit"
		memory.Why = "Without one it grows until the system ends it or another process."
		memory.Mend = []string{cli + " config set maxmemory 512mb", cli + " config set maxmemory-policy volatile-lru", cli + " config rewrite"}
	case !slices.Contains(evicting, facts["maxmemory_policy"]):
		memory.Level, memory.Wanted = Low, "a policy that makes room, such as volatile-lru"
		memory.Why = "When it is full, it refuses new keys."
		memory.Mend = []string{cli + " config set maxmemory-policy volatile-lru", cli + " config rewrite"}
	}
	return []Finding{{About: about, Level: OK, Found: "version " + facts["redis_version"]}, backlog, memory}
}

func (p subject) redisBacklog(facts map[string]string) Finding {
	f := Finding{About: "redis backlog", Level: OK, Found: facts["tcp-backlog"]}
	n, err := strconv.Atoi(facts["tcp-backlog"])
	switch {
	case err != nil:
		f.Level, f.Found = Unknown, "it does not say (CONFIG may be disabled)"
	case n < 511:
		f.Level, f.Wanted = Low, "511 or more"
		f.Why = "When a fleet starts, every gateway connects at once; what does not fit waits a second or more. The kernel's accept queue bounds it too."
		f.Mend = []string{"redis.conf: tcp-backlog 511"}
	}
	return f
}

// askRedis returns the fields of INFO and one setting.
func askRedis(ctx context.Context, addr, setting string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTime)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintf(c, "*1\r\n$4\r\nINFO\r\n*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(setting), setting); err != nil {
		return nil, fmt.Errorf("ask redis at %s: %w", addr, err)
	}
	r := bufio.NewReader(io.LimitReader(c, 2*redisReply))
	facts := map[string]string{}
	info, err := readReply(r)
	if err != nil {
		return nil, fmt.Errorf("ask redis at %s for INFO: %w", addr, err)
	}
	for line := range strings.Lines(info[0]) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	// CONFIG is often disabled. The other answers are useful without it.
	config, err := readReply(r)
	var refused redisError
	if err != nil && !errors.As(err, &refused) {
		return nil, fmt.Errorf("ask redis at %s for its settings: %w", addr, err)
	}
	if len(config) == 2 {
		facts[config[0]] = config[1]
	}
	return facts, nil
}

// redisError is an error reply of the server.
type redisError string

func (e redisError) Error() string { return "redis says " + strconv.Quote(string(e)) }

// readReply reads one RESP2 reply: a bulk string, a simple string, or a
// non-empty array of bulk strings.
// https://redis.io/docs/latest/develop/reference/protocol-spec/
func readReply(r *bufio.Reader) ([]string, error) {
	kind, rest, err := replyLine(r)
	if err != nil {
		return nil, err
	}
	switch kind {
	case '-':
		return nil, redisError(rest)
	case '+':
		return []string{rest}, nil
	case '$':
		s, err := bulk(r, rest)
		return []string{s}, err
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || n > 1000 {
			return nil, fmt.Errorf("an array of %q elements", rest)
		}
		all := make([]string, 0, n)
		for range n {
			kind, rest, err := replyLine(r)
			if err != nil {
				return nil, err
			}
			if kind != '$' {
				return nil, fmt.Errorf("an array with an element of kind %q", kind)
			}
			s, err := bulk(r, rest)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		return all, nil
	}
	return nil, fmt.Errorf("a reply of kind %q", kind)
}

func replyLine(r *bufio.Reader) (kind byte, rest string, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, "", fmt.Errorf("%q is not a line of a reply", line)
	}
	return line[0], string(line[1 : len(line)-2]), nil
}

func bulk(r *bufio.Reader, length string) (string, error) {
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > redisReply {
		return "", fmt.Errorf("a string of %q bytes", length)
	}
	b := make([]byte, n+2)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", err
	}
	if string(b[n:]) != "\r\n" {
		return "", errors.New("a string that does not end where it should")
	}
	return string(b[:n]), nil
}
