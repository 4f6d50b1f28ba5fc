package kafka

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/event/jsonl"
	"shuultuur/lib/setting"
)

// cluster starts a cluster with the topic events, and returns settings for it.
func cluster(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, Config) {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3), kfake.SeedTopics(5, "events")}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, Config{To: c.ListenAddrs()[:1], Topic: "events"}
}

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg, jsonl.AppendLine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// consume reads n events.
func consume(t *testing.T, c *kfake.Cluster, n int) (all []*kgo.Record) {
	t.Helper()
	return consumeUntil(t, c, func(all []*kgo.Record) bool { return len(all) >= n })
}

// consumeUntil reads events until they are enough.
func consumeUntil(t *testing.T, c *kfake.Cluster, enough func([]*kgo.Record) bool) (all []*kgo.Record) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("events"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for !enough(all) {
		f := client.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("reading on after %d events: %v", len(all), err)
		}
		all = append(all, f.Records()...)
	}
	return all
}

func TestEventsArriveUnderTheirIDWhereOtherClientsPutThem(t *testing.T) {
	c, cfg := cluster(t)
	s := open(t, cfg)
	rows := eventtest.Rows(eventtest.Start(), 3000)
	for i := 0; i < len(rows); i += 1000 {
		if err := s.Write(t.Context(), rows[i:i+1000]); err != nil {
			t.Fatal(err)
		}
	}
	byID := map[string]event.Row{}
	for _, r := range rows {
		byID[r.ID] = r
	}
	where := kgo.StickyKeyPartitioner(nil).ForTopic("events")
	for _, r := range consume(t, c, len(rows)) {
		want, ok := byID[string(r.Key)]
		got, err := jsonl.ParseLine(r.Value)
		if !ok || err != nil || got != want || !r.Timestamp.Equal(want.Time.Truncate(time.Millisecond)) {
			t.Fatalf("%s: got %+v, want %+v, %v", r.Key, got, want, err)
		}
		if p := where.Partition(&kgo.Record{Key: r.Key}, 5); p != int(r.Partition) {
			t.Fatalf("the event %s is in partition %d; Kafka's own clients put it into %d", r.Key, r.Partition, p)
		}
		delete(byID, string(r.Key))
	}
	if len(byID) > 0 {
		t.Errorf("%d events did not arrive", len(byID))
	}
}

func TestHostileTextArrivesAsJSON(t *testing.T) {
	c, cfg := cluster(t)
	rows := eventtest.HostileRows(eventtest.Start())
	if err := open(t, cfg).Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range consume(t, c, len(rows)) {
		if !json.Valid(r.Value) {
			t.Errorf("the value of a record is no JSON: %q", r.Value)
		}
	}
}

func TestAStoreSignsIn(t *testing.T) {
	for mechanism, name := range map[string]string{"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "": "SCRAM-SHA-512"} {
		for _, tt := range []struct{ user, password, want string }{
			{"an=n,a", "s3cret", ""}, {"an=n,a", "wrong", `as "an=n,a"`}, {"", "", "send 1 events"},
		} {
			tlsOf, ca := certificate(t)
			_, cfg := cluster(t, kfake.EnableSASL(), kfake.Superuser(name, "an=n,a", "s3cret"), kfake.TLS(tlsOf))
			cfg.User, cfg.Password, cfg.TLS, cfg.CA = tt.user, tt.password, true, setting.File(ca)
			if tt.user != "" {
				cfg.Mechanism = mechanism
			}
			err := open(t, cfg).Write(t.Context(), eventtest.Rows(eventtest.Start(), 1))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: signing in as %q with %q: %v, want %q", name, tt.user, tt.password, err, tt.want)
			}
		}
	}
}

func TestEventsGoOnWhenLeadersChange(t *testing.T) {
	c, cfg := cluster(t)
	s := open(t, cfg)
	rows := eventtest.Rows(eventtest.Start(), 300)
	if err := s.Write(t.Context(), rows[:100]); err != nil {
		t.Fatal(err)
	}
	for p := range int32(5) {
		if err := c.MoveTopicPartition("events", p, int32(p+1)%3); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	for range 3 { // the log tries again
		if err = s.Write(t.Context(), rows[100:]); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	consumeUntil(t, c, func(all []*kgo.Record) bool { // what was written again came twice
		seen := map[string]bool{}
		for _, r := range all {
			seen[string(r.Key)] = true
		}
		return len(seen) == len(rows)
	})
}

func TestOnlyWhatIsTooLargeIsRefused(t *testing.T) {
	c, cfg := cluster(t, kfake.BrokerConfigs(map[string]string{"message.max.bytes": "4000"}))
	rows := eventtest.Rows(eventtest.Start(), 400)
	var noise strings.Builder
	for range 20_000 {
		noise.WriteByte(byte('a' + rand.IntN(26)))
	}
	rows[7].URL = noise.String()
	err := open(t, cfg).Write(t.Context(), rows)
	refused, ok := errors.AsType[*event.Refused](err)
	if !ok || refused.Rows != 1 || !strings.Contains(err.Error(), "max.message.bytes") {
		t.Fatalf("writing one event that is too large: %v, want that one row is refused because of max.message.bytes", err)
	}
	seen := map[string]bool{}
	for _, r := range consume(t, c, 399) {
		seen[string(r.Key)] = true
	}
	if len(seen) != 399 || seen[rows[7].ID] {
		t.Errorf("%d events arrived, want 399, without the one that is too large", len(seen))
	}
}

func TestABrokerThatIsAwayIsAnError(t *testing.T) {
	c, cfg := cluster(t)
	s := open(t, cfg)
	rows := eventtest.Rows(eventtest.Start(), 10)
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	c.Close()
	err := s.Write(t.Context(), rows)
	if _, refused := errors.AsType[*event.Refused](err); err == nil || refused {
		t.Errorf("writing with a setting that can be corrected: %v, want an error that is not final", err)
	}
}

func TestEventsGoOnWhenTheBrokersAreBack(t *testing.T) {
	c, cfg := cluster(t, kfake.NumBrokers(1))
	s := open(t, cfg)
	rows := eventtest.Rows(eventtest.Start(), 10)
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(c.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	n, _ := strconv.Atoi(port)
	c.Close()
	if err := s.Write(t.Context(), rows); err == nil {
		t.Fatal("Write returns no error although the broker is away")
	}
	c, _ = cluster(t, kfake.NumBrokers(1), kfake.Ports(n))
	// The new cluster gives its topic another ID, which the first attempt finds out.
	if err = s.Write(t.Context(), rows); err != nil {
		err = s.Write(t.Context(), rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := len(consume(t, c, len(rows))); got != len(rows) {
		t.Errorf("%d events, want %d", got, len(rows))
	}
}

// A loser is a listener whose connections drop one answer on command.
type loser struct {
	net.Listener
	dropReplies *atomic.Bool
}

func (l loser) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return loserConn{c, l.dropReplies}, err
}

type loserConn struct {
	net.Conn
	dropReplies *atomic.Bool
}

func (c loserConn) Write(p []byte) (int, error) {
	if c.dropReplies.CompareAndSwap(true, false) {
		c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// TestALostAnswerMakesEventsComeTwice: if the broker stores events and its answer is lost, they
// arrive twice, with the same key and in the same partition.
func TestALostAnswerMakesEventsComeTwice(t *testing.T) {
	var dropReplies atomic.Bool
	var once sync.Once
	c, cfg := cluster(t, kfake.NumBrokers(1), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		ln, err := net.Listen(network, address)
		return loser{ln, &dropReplies}, err
	}))
	c.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		once.Do(func() { dropReplies.Store(true) })
		return nil, nil, false // the cluster writes the events
	})
	s := open(t, cfg)
	rows := eventtest.Rows(eventtest.Start(), 50)
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	at, times := map[string]int32{}, map[string]int{}
	for _, r := range consume(t, c, 2*len(rows)) {
		key := string(r.Key)
		if p, ok := at[key]; ok && p != r.Partition {
			t.Errorf("%s is in partitions %d and %d", key, p, r.Partition)
		}
		at[key] = r.Partition
		times[key]++
	}
	for _, r := range rows {
		if times[r.ID] != 2 {
			t.Errorf("the event %s arrived %d times, want 2", r.ID, times[r.ID])
		}
	}
}

// TestErrorsOfABrokerPassOrDoNot: an error that stays is returned with its number, and the
// events arrive when they are written again. Errors about the events themselves are final.
func TestErrorsOfABrokerPassOrDoNot(t *testing.T) {
	for code, refuses := range map[int16]bool{
		3:  false, // UNKNOWN_TOPIC_OR_PARTITION
		5:  false, // LEADER_NOT_AVAILABLE
		6:  false, // NOT_LEADER_OR_FOLLOWER
		7:  false, // REQUEST_TIMED_OUT
		19: false, // NOT_ENOUGH_REPLICAS
		20: false, // NOT_ENOUGH_REPLICAS_AFTER_APPEND
		29: false, // TOPIC_AUTHORIZATION_FAILED
		56: false, // KAFKA_STORAGE_ERROR
		87: true,  // INVALID_RECORD
	} {
		t.Run(strconv.Itoa(int(code)), func(t *testing.T) {
			t.Parallel()
			c, cfg := cluster(t, kfake.NumBrokers(1))
			var mended atomic.Bool
			c.ControlKey(int16(kmsg.Produce), func(q kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				p := q.(*kmsg.ProduceRequest)
				res := p.ResponseKind().(*kmsg.ProduceResponse)
				for _, topic := range p.Topics {
					rt := kmsg.NewProduceResponseTopic()
					rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
					for _, part := range topic.Partitions {
						rp := kmsg.NewProduceResponseTopicPartition()
						rp.Partition, rp.ErrorCode = part.Partition, code
						rt.Partitions = append(rt.Partitions, rp)
					}
					res.Topics = append(res.Topics, rt)
				}
				return res, nil, !mended.Load()
			})
			s := open(t, cfg)
			rows := eventtest.Rows(eventtest.Start(), 20)
			err := s.Write(t.Context(), rows)
			if _, refused := errors.AsType[*event.Refused](err); err == nil || refused != refuses || !strings.Contains(err.Error(), fmt.Sprintf("(error %d)", code)) && !strings.Contains(err.Error(), "never confirmed") {
				t.Errorf("writing while the broker has error %d: %v, want that error, final: %t", code, err, refuses)
			}
			if refuses {
				return
			}
			mended.Store(true)
			if err := s.Write(t.Context(), rows); err != nil {
				t.Fatalf("writing after error %d of the broker: %v", code, err)
			}
			if got := len(consume(t, c, len(rows))); got != len(rows) {
				t.Errorf("after error %d of the broker %d events arrived, want %d", code, got, len(rows))
			}
		})
	}
}

func TestATopicThatIsNotThereIsNamed(t *testing.T) {
	_, cfg := cluster(t)
	cfg.Topic = "other"
	if err := open(t, cfg).Write(t.Context(), eventtest.Rows(eventtest.Start(), 1)); err == nil || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("writing to a topic that does not exist: %v, want an error that names it", err)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for want, cfg := range map[string]Config{
		"to: is missing":          {Topic: "t"},
		"is not a broker":         {To: []string{"kafka.example"}, Topic: "t"},
		"not the name of a topic": {To: []string{"k:1"}},
		"characters other":        {To: []string{"k:1"}, Topic: "a/b"},
		"as it is":                {To: []string{"k:1"}, Topic: "t", User: "u", Password: "p", Mechanism: "plain"},
		"not one of plain":        {To: []string{"k:1"}, Topic: "t", User: "u", Mechanism: "gssapi"},
		"user: is missing":        {To: []string{"k:1"}, Topic: "t", Password: "p"},
		"for tls: true only":      {To: []string{"k:1"}, Topic: "t", CA: "x"},
		"no such file":            {To: []string{"k:1"}, Topic: "t", TLS: true, CA: "/does/not/exist"},
	} {
		if _, err := Open(cfg, jsonl.AppendLine); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// certificate returns one for 127.0.0.1, and a file with its root.
func certificate(t *testing.T) (*tls.Config, string) {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: srv.TLS.Certificates}, file
}
