package vote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A JetStream carries votes from several nodes to the one that counts, through a
// stream of NATS. NATS has to write them to the disk before it acknowledges
// (sync_interval: always): a vote leaves the log of its node when NATS has it.
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

// ConnectJetStream connects to the server at a URL, and makes the stream if there
// is none. Votes are deleted from it when they are in the log of the node that
// counts.
func ConnectJetStream(ctx context.Context, url, name string) (*JetStream, error) {
	conn, err := nats.Connect(url, nats.Timeout(natsWait), nats.MaxReconnects(0), nats.Name("shuultuur votes"))
	if err != nil {
		return nil, fmt.Errorf("connecting to NATS: %w", err)
	}
	s := &JetStream{conn: conn, name: name}
	if s.js, err = jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(natsPart)); err == nil {
		ctx, cancel := context.WithTimeout(ctx, natsWait)
		defer cancel()
		_, err = s.js.CreateStream(ctx, jetstream.StreamConfig{Name: name, Subjects: []string{name}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // with other settings of the operator's
			err = nil
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("making the stream %q in NATS: %w", name, err)
	}
	return s, nil
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

// Receive moves votes from the stream into a log until ctx ends or an error comes
// between. What was read and not acknowledged comes again. works is called each
// time that reading works.
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
