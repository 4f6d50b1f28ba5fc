//go:build !small

package vote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A JetStream carries votes from several nodes to the node that counts, through a
// stream in NATS. A vote leaves its node's log when NATS has accepted it, so NATS
// must write it to disk before it acknowledges (sync_interval: always, since NATS
// 2.10). Clients cannot query that setting, only whether the stream is kept in a
// file.
type JetStream struct {
	conn *nats.Conn
	js   jetstream.JetStream
	name string
}

// Limits of a stream.
const (
	natsWait = 10 * time.Second
	natsPart = 500
)

// ConnectJetStream connects to the server at a URL, and creates the stream if it
// does not exist. Votes are deleted from the stream when they are in the log of
// the node that counts. remark is called with the parts that cannot be verified.
func ConnectJetStream(ctx context.Context, url, name string, remark func(string)) (*JetStream, error) {
	conn, err := nats.Connect(url, nats.Timeout(natsWait), nats.MaxReconnects(0), nats.Name("shuultuur votes"))
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	s := &JetStream{conn: conn, name: name}
	if s.js, err = jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(natsPart)); err == nil {
		ctx, cancel := context.WithTimeout(ctx, natsWait)
		defer cancel()
		_, err = s.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // the operator has made it with other settings
			err = s.check(ctx)
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("making the stream %q in NATS: %w", name, err)
	}
	var major, minor int
	version := conn.ConnectedServerVersion()
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err == nil && (major < 2 || major == 2 && minor < 10) {
		remark(fmt.Sprintf("NATS %s cannot write each vote to its disk before it acknowledges, and may lose some when its machine fails; use 2.10 or later with sync_interval: always", version))
	} else {
		remark("NATS does not say whether it writes each vote to its disk before it acknowledges: its settings need jetstream { sync_interval: always }")
	}
	return s, nil
}

// check refuses a stream that NATS keeps in memory only.
func (s *JetStream) check(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, s.name)
	if err != nil {
		return err
	}
	if stream.CachedInfo().Config.Storage == jetstream.MemoryStorage {
		return errors.New("it is in memory: votes that NATS has acknowledged would be lost with it; delete it, or edit it to storage: file")
	}
	return nil
}

// Close ends the connection.
func (s *JetStream) Close() { s.conn.Close() }

// Take implements [Sink].
func (s *JetStream) Take(ctx context.Context, records [][]byte) error {
	for len(records) > 0 {
		part := records[:min(len(records), natsPart)]
		answers := make([]jetstream.PubAckFuture, len(part))
		for n, r := range part {
			a, err := s.js.PublishAsync(s.name, r)
			if err != nil {
				return fmt.Errorf("adding votes to the stream in NATS: %w", err)
			}
			answers[n] = a
		}
		late := time.NewTimer(natsWait)
		for _, a := range answers {
			select {
			case <-a.Ok():
			case err := <-a.Err():
				late.Stop()
				return fmt.Errorf("adding votes to the stream in NATS: %w", err)
			case <-late.C:
				return errors.New("adding votes to the stream in NATS: it does not acknowledge them")
			case <-ctx.Done():
				late.Stop()
				return ctx.Err()
			}
		}
		late.Stop()
		records = records[len(part):]
	}
	return nil
}

// Receive moves votes from the stream into a log until ctx ends or an error
// occurs. Votes that were not acknowledged are delivered again. works is called
// after each successful read.
func (s *JetStream) Receive(ctx context.Context, log Log, works func()) error {
	c, err := s.js.CreateOrUpdateConsumer(ctx, s.name, jetstream.ConsumerConfig{Durable: streamReader, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: 10 * natsPart})
	if err != nil {
		return fmt.Errorf("reading votes from the stream in NATS: %w", err)
	}
	for ctx.Err() == nil {
		batch, err := c.Fetch(natsPart, jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return fmt.Errorf("reading votes from the stream in NATS: %w", err)
		}
		var all []jetstream.Msg
		var records [][]byte
		for m := range batch.Messages() {
			all = append(all, m)
			if _, err := Parse(m.Data()); err == nil {
				records = append(records, m.Data())
			}
		}
		if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) {
			return fmt.Errorf("reading votes from the stream in NATS: %w", err)
		}
		if s.conn.IsClosed() {
			return errors.New("reading votes from the stream in NATS: the connection is lost")
		}
		if len(records) > 0 {
			if err := log.Append(ctx, records...); err != nil {
				return err
			}
		}
		for _, m := range all {
			if err := m.Ack(); err != nil {
				return fmt.Errorf("acknowledging votes to NATS: %w", err)
			}
		}
		works()
	}
	return nil
}
