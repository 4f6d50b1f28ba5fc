// Package kafka sends events to a topic of a Kafka cluster (kafka.apache.org/protocol), as JSON
// lines with the event's ID as key.
//
// Data moves as follows. [Store.Write] gives a batch to the client of franz-go, which divides it
// by partition with the hash that Kafka's own clients use, and waits until all in-sync replicas
// have every record. If a part fails, the whole batch fails and is sent again: an event may
// appear twice, with the same key in the same partition. The client itself tries again only a few times,
// at once: the event log decides how long it tries.
//
// A single event that exceeds the broker's limit is refused for good.
package kafka

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"shuultuur/event"
	"shuultuur/lib/setting"
)

const (
	wait     = 10 * time.Second // timeout for an answer
	dialWait = 2 * time.Second  // timeout for a connection; short, so that a restarted broker is soon tried again
	metaFor  = 5 * time.Minute  // how long metadata is used
	// retries is how often the client tries again by itself, which suffices when a leader
	// changes. More would hide for long that a broker is away: the event log tries again.
	retries = 2
)

// Config sets the topic to which events are sent.
type Config struct {
	To        setting.OneOrMore[string] `yaml:"to"`    // initial brokers: host:port
	Topic     string                    `yaml:"topic"` // must exist
	TLS       bool                      `yaml:"tls"`   // connections are encrypted
	CA        setting.File              `yaml:"ca"`    // PEM file with the roots of the brokers' certificates; default the system's
	User      string                    `yaml:"user"`  // for SASL; "" for none
	Password  string                    `yaml:"password" secret:"yes"`
	Mechanism string                    `yaml:"mechanism"` // plain, scram-sha-256 or scram-sha-512, which is the default
}

// Open implements [event.Setting]. It does not connect.
func (c *Config) Open(o event.Opening) ([]event.Store, error) {
	return event.Only(Open(*c, o.Lines.Append))
}

// A Store sends events to one topic.
type Store struct {
	seeds  []string
	topic  string
	tls    *tls.Config // nil: plain
	roots  *setting.Renewed[*x509.CertPool]
	sasl   sasl.Mechanism // nil: no authentication
	as     string         // for errors: the user who signs in; some brokers refuse one without a word
	format func(dst []byte, r *event.Row) []byte
	client *kgo.Client // nil before the first Write
}

// Open reads the settings. It does not connect. format makes the value of a
// record.
func Open(cfg Config, format func(dst []byte, r *event.Row) []byte) (*Store, error) {
	s := &Store{topic: cfg.Topic, format: format}
	if len(cfg.To) == 0 {
		return nil, setting.At("to", errors.New(`is missing: write brokers, like "kafka.example:9092"`))
	}
	for i, to := range cfg.To {
		host, port, err := net.SplitHostPort(to)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
			return nil, setting.At(fmt.Sprintf("to[%d]", i), fmt.Errorf(`%q is not a broker; write it like "kafka.example:9092"`, to))
		}
		s.seeds = append(s.seeds, to)
	}
	if err := checkTopic(cfg.Topic); err != nil {
		return nil, setting.At("topic", err)
	}
	if cfg.TLS {
		s.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if cfg.CA != "" && s.tls == nil {
		return nil, setting.At("ca", errors.New("certificates are for tls: true only"))
	}
	var err error
	if s.roots, err = setting.Renew(cfg.CA.Roots, cfg.CA); err != nil {
		return nil, setting.At("ca", err)
	}
	if cfg.User != "" {
		s.as = fmt.Sprintf(" as %q", cfg.User)
	}
	s.sasl, err = mechanism(cfg)
	return s, err
}

// checkTopic returns what is wrong with the name of a topic, or nil.
func checkTopic(name string) error {
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return fmt.Errorf("%q has characters other than letters, digits, dots, underscores and hyphens", name)
		}
	}
	if name == "" || len(name) > 249 || name == "." || name == ".." {
		return fmt.Errorf("%.300q is not the name of a topic", name)
	}
	return nil
}

// Name implements [event.Store].
func (s *Store) Name() string { return "kafka" }

// Close implements [event.Store].
func (s *Store) Close() error {
	if s.client != nil {
		s.client.Close()
	}
	return nil
}

// Write implements [event.Store].
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*wait)
	defer cancel()
	if err := s.connect(); err != nil {
		return err
	}
	records := make([]*kgo.Record, len(rows))
	for i := range rows {
		r := &rows[i]
		value := bytes.TrimSuffix(s.format(nil, r), []byte("\n"))
		records[i] = &kgo.Record{Key: []byte(r.ID), Value: value, Timestamp: r.Time}
	}
	if err := s.send(ctx, records); err != nil {
		return fmt.Errorf("send %d events to the topic %q%s: %w", len(rows), s.topic, s.as, err)
	}
	return nil
}

// connect makes the client. It connects by itself when there is something to send.
func (s *Store) connect() (err error) {
	if s.client != nil {
		return nil
	}
	opts := []kgo.Opt{
		kgo.SeedBrokers(s.seeds...), kgo.ClientID("shuultuur"), kgo.DisableClientMetrics(),
		kgo.DefaultProduceTopic(s.topic), kgo.AllowAutoTopicCreation(),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite(),
		kgo.ProducerBatchCompression(kgo.GzipCompression().WithLevel(gzip.BestSpeed)),
		kgo.Dialer(s.dial),
		kgo.ProduceRequestTimeout(wait), kgo.RequestTimeoutOverhead(wait),
		kgo.RecordRetries(retries), kgo.UnknownTopicRetries(retries), kgo.RequestRetries(retries), kgo.RetryTimeout(wait),
		kgo.MetadataMaxAge(metaFor), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}
	if s.sasl != nil {
		opts = append(opts, kgo.SASL(s.sasl))
	}
	if s.client, err = kgo.NewClient(opts...); err != nil {
		return fmt.Errorf("start Kafka's client: %w", err)
	}
	return nil
}

// dial connects to a broker. It reads the roots anew, as they may have been replaced.
func (s *Store) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialWait}
	if s.tls == nil {
		return d.DialContext(ctx, network, address)
	}
	secure := s.tls.Clone()
	secure.RootCAs = s.roots.Current()
	return (&tls.Dialer{NetDialer: &d, Config: secure}).DialContext(ctx, network, address)
}

// send sends records to their partitions. Where a broker finds a batch too large, its records
// may fit in smaller ones.
func (s *Store) send(ctx context.Context, records []*kgo.Record) error {
	var large []*kgo.Record
	refused := &event.Refused{}
	for _, result := range s.client.ProduceSync(ctx, records...) {
		switch err := result.Err; {
		case err == nil:
		case tooLarge(err) && len(records) > 1:
			large = append(large, result.Record)
		case tooLarge(err), errors.Is(err, kerr.InvalidRecord):
			refused.Rows, refused.Err = refused.Rows+1, explained(err)
		default:
			if errors.Is(err, kerr.UnknownTopicID) { // the topic was made anew
				s.client.PurgeTopicsFromProducing(s.topic)
			}
			return explained(err)
		}
	}
	for part := range slices.Chunk(large, max(1, (len(large)+1)/2)) {
		err := s.send(ctx, part)
		if r, ok := errors.AsType[*event.Refused](err); ok {
			refused.Rows, refused.Err = refused.Rows+r.Rows, r.Err
		} else if err != nil {
			return err
		}
	}
	if refused.Rows > 0 {
		return refused
	}
	return nil
}

// tooLarge reports that a batch exceeds the broker's limit.
func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// explained adds to an error of a broker its number, and what to do about it.
func explained(err error) error {
	broker, ok := errors.AsType[*kerr.Error](err)
	switch {
	case errors.Is(err, kgo.ErrRecordRetries): // the client does not keep the broker's last error
		return fmt.Errorf("a broker has never confirmed the events; its log may say why, such as replicas that are away: %w", err)
	case !ok:
		return err
	case tooLarge(err):
		return fmt.Errorf("an event is larger than the broker takes: raise max.message.bytes of the topic (error %d)", broker.Code)
	}
	return fmt.Errorf("%w (error %d)", err, broker.Code)
}

// mechanism returns how connections sign in (KIP-43, KIP-152), or nil if no user is set.
func mechanism(cfg Config) (m sasl.Mechanism, err error) {
	switch cfg.Mechanism {
	case "plain":
		m = plain.Auth{User: cfg.User, Pass: cfg.Password}.AsMechanism()
		if !cfg.TLS && cfg.User != "" {
			return nil, setting.At("mechanism", errors.New("plain sends the password as it is: set tls, or use scram-sha-512"))
		}
	case "scram-sha-256":
		m = scram.Auth{User: cfg.User, Pass: cfg.Password}.AsSha256Mechanism()
	case "", "scram-sha-512":
		m = scram.Auth{User: cfg.User, Pass: cfg.Password}.AsSha512Mechanism()
	default:
		return nil, setting.At("mechanism", fmt.Errorf("%q is not one of plain, scram-sha-256 and scram-sha-512", cfg.Mechanism))
	}
	switch {
	case cfg.User == "" && (cfg.Password != "" || cfg.Mechanism != ""):
		return nil, setting.At("user", errors.New("is missing"))
	case cfg.User == "":
		return nil, nil
	case strings.ContainsRune(cfg.User+cfg.Password, 0):
		return nil, setting.At("user", errors.New("user and password must not contain zero bytes"))
	}
	return m, nil
}
