// Package kafka sends events to a topic of a Kafka cluster (kafka.apache.org/protocol), as JSON
// lines with the event's ID as key.
//
// Data moves as follows. [Store.Write] divides a batch by partition, with the hash that Kafka's
// clients use, makes record batches (batch.go) and sends one request to each broker that leads
// some of the partitions (wire.go), on kept connections. It returns when all in-sync replicas
// have the records. If a part fails, the whole batch fails and is sent again: an event may
// appear twice, with the same key in the same partition.
//
// A single event that exceeds the broker's limit is refused for good.
package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"shuultuur/arrange"
	"shuultuur/event"
	"shuultuur/setting"
)

const (
	wait      = 10 * time.Second // timeout for signing in, and for an answer
	dialWait  = 2 * time.Second  // timeout for a connection; short, so that a restarted broker is soon tried again
	maxBatch  = 900 << 10        // bytes of a record batch before it is compressed: brokers take 1 MiB
	metaFor   = 5 * time.Minute  // how long metadata is used
	errorNone = 0
)

// A Store sends events to one topic.
type Store struct {
	seeds  []string
	topic  string
	tls    *tls.Config // nil: plain
	roots  *setting.Renewed[*x509.CertPool]
	sasl   *sasl // nil: no authentication
	format func(dst []byte, r *event.Row) []byte

	conns   map[string]*conn // by address
	leaders []string         // addresses of the leaders, by partition; "" for none
	until   time.Time        // leaders are valid until then
}

// Open reads the settings. It does not connect. format makes the value of a
// record.
func Open(cfg event.Kafka, format func(dst []byte, r *event.Row) []byte) (*Store, error) {
	s := &Store{topic: cfg.Topic, format: format, conns: map[string]*conn{}}
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
	s.sasl, err = newSASL(cfg)
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
	for _, c := range s.conns {
		c.Close()
	}
	clear(s.conns)
	return nil
}

// Write implements [event.Store].
func (s *Store) Write(ctx context.Context, rows []event.Row) error {
	if len(rows) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*wait)
	defer cancel()
	if err := s.send(ctx, rows); err != nil {
		return fmt.Errorf("send %d events to the topic %s: %w", len(rows), s.topic, err)
	}
	return nil
}

// send sends rows to their partitions.
func (s *Store) send(ctx context.Context, rows []event.Row) error {
	if time.Now().After(s.until) || s.leaders == nil {
		if err := s.learn(ctx); err != nil {
			return err
		}
	}
	parts := make([][]record, len(s.leaders))
	for i := range rows {
		r := &rows[i]
		p := int(murmur2([]byte(r.ID))&0x7fffffff) % len(parts)
		parts[p] = append(parts[p], record{at: r.Time.UnixMilli(), key: r.ID, value: s.format(nil, r)})
	}
	for p, records := range parts {
		for i := range records {
			records[i].value = slices.Clip(trimLine(records[i].value))
		}
		if len(records) > 0 && s.leaders[p] == "" {
			s.until = time.Time{}
			return fmt.Errorf("partition %d has no leader", p)
		}
	}
	var dropped *event.Refused
	for {
		batches := take(parts)
		if len(batches) == 0 {
			break
		}
		if err := s.produce(ctx, batches); err != nil {
			refused, ok := errors.AsType[*event.Refused](err)
			if !ok {
				s.until = time.Time{} // the leader may have changed
				return err
			}
			if dropped == nil {
				dropped = &event.Refused{Err: refused.Err}
			}
			dropped.Rows += refused.Rows
		}
	}
	if dropped != nil {
		return dropped
	}
	return nil
}

func trimLine(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	return b
}

// A part has records for one partition.
type part struct {
	partition int
	records   []record
}

// take removes from every partition as much as fits into one record batch.
func take(parts [][]record) (batches []part) {
	for p, records := range parts {
		n, size := 0, 0
		for n < len(records) && (n == 0 || size+records[n].size() <= maxBatch) {
			size += records[n].size()
			n++
		}
		if n > 0 {
			batches = append(batches, part{p, records[:n]})
			parts[p] = records[n:]
		}
	}
	return batches
}

// produce sends record batches to the brokers that lead their partitions.
func (s *Store) produce(ctx context.Context, batches []part) error {
	arrange.By(batches, func(a, b part) int { return cmp.Compare(s.leaders[a.partition], s.leaders[b.partition]) })
	refused := &event.Refused{}
	for len(batches) > 0 {
		at := s.leaders[batches[0].partition]
		n := 1
		for n < len(batches) && s.leaders[batches[n].partition] == at {
			n++
		}
		codes, err := s.produceAt(ctx, at, batches[:n])
		if err != nil {
			return fmt.Errorf("broker %s: %w", at, err)
		}
		for _, b := range batches[:n] {
			switch code, ok := codes[b.partition]; {
			case !ok:
				return fmt.Errorf("broker %s says nothing of partition %d", at, b.partition)
			case code == errorNone:
			case tooLarge(code) && len(b.records) > 1: // its records may fit one by one
				half := len(b.records) / 2
				for _, records := range [][]record{b.records[:half], b.records[half:]} {
					err := s.produce(ctx, []part{{b.partition, records}})
					if r, ok := errors.AsType[*event.Refused](err); ok {
						refused.Rows, refused.Err = refused.Rows+r.Rows, r.Err
					} else if err != nil {
						return err
					}
				}
			case tooLarge(code) || code == 87: // INVALID_RECORD
				refused.Rows, refused.Err = refused.Rows+len(b.records), errorOf(code)
			default:
				return fmt.Errorf("broker %s, partition %d: %w", at, b.partition, errorOf(code))
			}
		}
		batches = batches[n:]
	}
	if refused.Rows > 0 {
		return refused
	}
	return nil
}

// tooLarge reports that a batch exceeds the broker's limit.
func tooLarge(code int16) bool { return code == 10 || code == 18 }

// produceAt sends record batches to a broker and returns a code for each
// partition.
func (s *Store) produceAt(ctx context.Context, at string, batches []part) (codes map[int]int16, err error) {
	c, err := s.connect(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.forget(at)
		}
	}()
	res, err := c.call(ctx, produceKey, c.produceVersion, func(m *writer) {
		m.nullString() // transactional_id
		m.i16(-1)      // acks: all in sync
		m.i32(int32(wait / time.Millisecond))
		m.i32(1)
		m.string(s.topic)
		m.i32(int32(len(batches)))
		for _, b := range batches {
			m.i32(int32(b.partition))
			m.bytes(appendBatch(nil, b.records))
		}
	})
	if err != nil {
		return nil, err
	}
	codes = map[int]int16{}
	for range res.count() {
		_ = res.string()
		for range res.count() {
			p, code := res.i32(), res.i16()
			codes[int(p)] = code
			res.skip(16) // base_offset, log_append_time
			if c.produceVersion >= 5 {
				res.skip(8) // log_start_offset
			}
		}
	}
	return codes, res.err
}

// learn asks the brokers which of them lead the partitions.
func (s *Store) learn(ctx context.Context) error {
	var errs []error
	addresses := slices.Clone(s.seeds)
	for _, a := range s.leaders { // those that led last
		if a != "" && !slices.Contains(addresses, a) {
			addresses = append(addresses, a)
		}
	}
	for _, at := range addresses {
		err := s.learnFrom(ctx, at)
		if err == nil {
			s.until = time.Now().Add(metaFor)
			return nil
		}
		errs = append(errs, fmt.Errorf("broker %s: %w", at, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// learnFrom asks one broker.
func (s *Store) learnFrom(ctx context.Context, at string) (err error) {
	c, err := s.connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			s.forget(at)
		}
	}()
	res, err := c.call(ctx, metadataKey, metadataVersion, func(m *writer) {
		m.i32(1)
		m.string(s.topic)
		m.bool(true) // allow_auto_topic_creation, if the broker permits it
	})
	if err != nil {
		return err
	}
	res.skip(4) // throttle_time_ms
	brokers := map[int32]string{}
	for range res.count() {
		id, host, port := res.i32(), res.string(), res.i32()
		_ = res.string() // rack
		brokers[id] = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	_ = res.string() // cluster_id
	res.skip(4)      // controller_id
	var leaders []string
	for range res.count() {
		code := res.i16()
		name := res.string()
		res.skip(1) // is_internal
		if code != errorNone {
			return fmt.Errorf("topic %q: %w", name, errorOf(code))
		}
		n := res.count()
		leaders = make([]string, n)
		for range n {
			res.skip(2) // a missing leader shows the error
			p, leader := res.i32(), res.i32()
			for range 2 { // replica_nodes, isr_nodes
				res.skip(4 * res.count())
			}
			if int(p) >= 0 && int(p) < n {
				leaders[p] = brokers[leader]
			}
		}
	}
	if res.err != nil {
		return res.err
	}
	if len(leaders) == 0 {
		return fmt.Errorf("the topic %q has no partitions", s.topic)
	}
	s.leaders = leaders
	return nil
}

// connect returns the connection to a broker.
func (s *Store) connect(ctx context.Context, at string) (*conn, error) {
	if c := s.conns[at]; c != nil {
		return c, nil
	}
	secure := s.tls.Clone() // nil means plain text
	if secure != nil {
		secure.RootCAs = s.roots.Current()
	}
	c, err := dial(ctx, at, secure, s.sasl)
	if err != nil {
		return nil, err
	}
	s.conns[at] = c
	return c, nil
}

// forget closes a failed connection.
func (s *Store) forget(at string) {
	if c := s.conns[at]; c != nil {
		c.Close()
		delete(s.conns, at)
	}
}
