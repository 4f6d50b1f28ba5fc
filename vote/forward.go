package vote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"shuultuur/lib/ingest"
	"shuultuur/lib/redis"
)

// A Forwarder is the sink that sends votes to another node over HTTP. The other
// node acknowledges them when they are on its disk.
type Forwarder struct {
	To     string // URL of the other node: "https://votes.example:8443"
	Secret string
	Client *http.Client
}

// Take implements [Sink].
func (f *Forwarder) Take(ctx context.Context, records [][]byte) error {
	for len(records) > 0 {
		n, size := 0, 0
		for n < len(records) && n < ingest.MaxRecords && size < maxForward/2 {
			size += len(records[n]) + 5
			n++
		}
		if err := f.send(ctx, pack(make([]byte, 0, size), records[:n])); err != nil {
			return err
		}
		records = records[n:]
	}
	return nil
}

func (f *Forwarder) send(ctx context.Context, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", f.To+forwardPath, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/octet-stream")
	r.Header.Set("Authorization", "Bearer "+f.Secret)
	res, err := f.Client.Do(r)
	if err != nil {
		return fmt.Errorf("forwarding votes: %w", err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 300))
	if res.StatusCode != http.StatusAccepted {
		return fmt.Errorf("forwarding votes: %s answers %s: %.200q", f.To, res.Status, text)
	}
	return nil
}

// A Stream is a Redis stream that carries votes from several nodes to the node
// that counts. A vote leaves its node's log when Redis has accepted it, so Redis
// must write it to disk before it acknowledges ([ConnectStream]).
type Stream struct {
	Redis *redis.Client
	Key   string
}

// durable are the Redis settings that keep acknowledged data, each with the loss
// that another value risks.
var durable = []struct {
	name  string
	holds func(value string) bool
	want  string
}{
	{"appendonly", func(v string) bool { return v == "yes" }, "yes"},
	{"appendfsync", func(v string) bool { return v == "always" }, "always"},
	{"maxmemory-policy", func(v string) bool { return !strings.HasPrefix(v, "allkeys-") }, "noeviction"},
}

// ConnectStream connects to Redis, and refuses a server that may lose
// acknowledged data. remark is called if the user may not read the server's
// settings.
func ConnectStream(ctx context.Context, cfg redis.Config, key string, remark func(string)) (*Stream, error) {
	client, err := redis.Connect(ctx, cfg, redis.Options{})
	if err != nil {
		return nil, fmt.Errorf("connecting to Redis: %w", err)
	}
	var b redis.Batch
	for _, d := range durable {
		b.Add("CONFIG", "GET", d.name)
	}
	if err := client.Do(ctx, &b); err != nil && redis.Code(err) == "" {
		client.Close()
		return nil, fmt.Errorf("asking Redis how it keeps votes: %w", err)
	}
	for i, d := range durable {
		value, known := "", false
		err := b.Reply(i).EachPair(func(_, v []byte) { value, known = string(v), true })
		switch {
		case err != nil || !known:
			remark(fmt.Sprintf("the user of Redis may not read its setting %s, which has to be %s: votes that Redis has acknowledged are lost with it otherwise", d.name, d.want))
		case !d.holds(value):
			client.Close()
			return nil, fmt.Errorf("in Redis %s is %s: it may lose votes that it has acknowledged; set it to %s (CONFIG SET %s %s, and in its file)", d.name, value, d.want, d.name, d.want)
		}
	}
	return &Stream{Redis: client, Key: key}, nil
}

const (
	streamGroup  = "counters"
	streamReader = "counter" // the same for all nodes that count: two of them may read the same votes
	streamPart   = 500
)

// Close ends the connection.
func (s *Stream) Close() { s.Redis.Close() }

// Take implements [Sink].
func (s *Stream) Take(ctx context.Context, records [][]byte) error {
	for len(records) > 0 {
		part := records[:min(len(records), streamPart)]
		var b redis.Batch
		for _, r := range part {
			b.Add("XADD", s.Key, "*", "v", string(r))
		}
		if err := s.Redis.Do(ctx, &b); err != nil {
			return fmt.Errorf("adding votes to the stream in Redis: %w", err)
		}
		for n := range part {
			if err := b.Reply(n).Err(); err != nil {
				return fmt.Errorf("adding votes to the stream in Redis: %w", err)
			}
		}
		records = records[len(part):]
	}
	return nil
}

// Receive moves votes from the stream into a log until ctx ends or an error
// occurs. The next call reads unacknowledged votes again. works is called after
// each successful read.
func (s *Stream) Receive(ctx context.Context, log Log, works func()) error {
	var b redis.Batch
	b.Add("XGROUP", "CREATE", s.Key, streamGroup, "0", "MKSTREAM")
	if err := s.Redis.Do(ctx, &b); err != nil && redis.Code(err) != "BUSYGROUP" { // BUSYGROUP: the group exists
		return fmt.Errorf("making a group of readers for the stream in Redis: %w", err)
	}
	from := "0" // first votes that were read before without acknowledgement, then new votes
	for ctx.Err() == nil {
		n, err := s.receive(ctx, from, log)
		if err != nil {
			return err
		}
		works()
		if from == "0" && n == 0 {
			from = ">"
		} else if from == ">" && n == 0 {
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// receive reads some votes, appends them to the log, and deletes them from the
// stream.
func (s *Stream) receive(ctx context.Context, from string, log Log) (int, error) {
	var b redis.Batch
	b.Add("XREADGROUP", "GROUP", streamGroup, streamReader, "COUNT", "1000", "STREAMS", s.Key, from)
	if err := s.Redis.Do(ctx, &b); err != nil {
		return 0, fmt.Errorf("reading votes from the stream in Redis: %w", err)
	}
	reply := b.Reply(0)
	if err := reply.Err(); err != nil {
		return 0, fmt.Errorf("reading votes from the stream in Redis: %w", err)
	}
	ids, records, err := entries(reply)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if len(records) > 0 {
		if err := log.Append(ctx, records...); err != nil {
			return 0, err
		}
	}
	b.Reset()
	b.Add(append([]string{"XACK", s.Key, streamGroup}, ids...)...)
	b.Add(append([]string{"XDEL", s.Key}, ids...)...)
	if err := s.Redis.Do(ctx, &b); err != nil {
		return 0, fmt.Errorf("deleting votes from the stream in Redis: %w", err)
	}
	return len(ids), nil
}

var errStream = errors.New("the stream of votes in Redis has entries of another kind")

// entries returns the identifiers and votes of a reply to XREADGROUP: a map from
// the stream to a list of pairs of identifier and fields.
func entries(r redis.Reply) (ids []string, records [][]byte, err error) {
	if r.Null() {
		return nil, nil, nil
	}
	streams, err := r.Items()
	if err != nil {
		return nil, nil, errStream
	}
	n := 0
	for list := range streams {
		if n++; n != 2 { // skips the name of the stream
			continue
		}
		all, err := list.Items()
		if err != nil {
			return nil, nil, errStream
		}
		for entry := range all {
			id, record, err := entryOf(entry)
			if err != nil {
				return nil, nil, err
			}
			ids = append(ids, id)
			if record != nil {
				records = append(records, record)
			}
		}
	}
	return ids, records, nil
}

// entryOf reads one entry. A deleted entry, or one that is not a vote, has no
// record.
func entryOf(r redis.Reply) (id string, record []byte, err error) {
	parts, err := r.Items()
	if err != nil {
		return "", nil, errStream
	}
	n := 0
	for part := range parts {
		switch n++; n {
		case 1:
			if id, err = part.Text(); err != nil {
				return "", nil, errStream
			}
		case 2:
			if part.Null() {
				continue
			}
			fields, err := part.Texts()
			if err != nil || len(fields) != 2 {
				continue
			}
			if _, err := Parse([]byte(fields[1])); err == nil {
				record = []byte(fields[1])
			}
		}
	}
	return id, record, nil
}
