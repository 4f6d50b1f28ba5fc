package transfer

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
)

var secret = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("s3cret"), 6))

func testKeys(t testing.TB, algorithm string) Keys {
	t.Helper()
	keys, err := NewKeys([]KeyConfig{{Name: "Key.Example", Algorithm: algorithm, Secret: secret}})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// theirs signs a question with the codec's own TSIG, which is not ours.
func theirs(t testing.TB, algorithm string, at time.Time) (msg []byte, mac string) {
	t.Helper()
	m := new(miekg.Msg)
	m.SetAxfr("example.com.")
	m.SetTsig("key.example.", algorithm+".", 300, at.Unix())
	msg, mac, err := miekg.TsigGenerate(m, secret, "", false)
	if err != nil {
		t.Fatal(err)
	}
	return msg, mac
}

func TestTSIGAgreesWithTheCodec(t *testing.T) {
	now := time.Now()
	for _, algorithm := range []string{"hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"} {
		keys := testKeys(t, algorithm)
		question, mac := theirs(t, algorithm, now)
		at, err := findTSIG(question)
		if err != nil || at == 0 {
			t.Fatalf("%s: the signed query has no TSIG: %v", algorithm, err)
		}
		key, r, code, err := keys.authenticate(question, at, now)
		if err != nil || code != 0 {
			t.Fatalf("%s: verifying the query: code %d, %v", algorithm, code, err)
		}
		// Three answers, all signed, each after the one before.
		s := &session{key: key, prior: bytes.Clone(r.mac)}
		check := &session{key: key, prior: bytes.Clone(r.mac)}
		for i := range 3 {
			reply := new(miekg.Msg)
			reply.SetReply(&miekg.Msg{MsgHdr: miekg.MsgHdr{Id: 7}, Question: []miekg.Question{{Name: "example.com.", Qtype: miekg.TypeAXFR, Qclass: miekg.ClassINET}}})
			plain, err := reply.Pack()
			if err != nil {
				t.Fatal(err)
			}
			signed := s.sign(bytes.Clone(plain), now, 0, 0)
			if err := miekg.TsigVerify(bytes.Clone(signed), secret, mac, i > 0); err != nil {
				t.Fatalf("%s: answer %d: the codec says %v", algorithm, i, err)
			}
			var parsed miekg.Msg
			if err := parsed.Unpack(signed); err != nil {
				t.Fatal(err)
			}
			mac = parsed.IsTsig().MAC
			got, whole, err := check.verify(signed, now)
			if err != nil || !whole || !bytes.Equal(got, plain) {
				t.Fatalf("%s: verifying answer %d: %v, whole %v", algorithm, i, err, whole)
			}
		}
	}
}

func TestMessagesBetweenSignedOnes(t *testing.T) {
	keys := testKeys(t, "hmac-sha256")
	key := keys["key.example."]
	now := time.Now()
	stream := func(gap int) (*session, [][]byte) {
		s := &session{key: key, prior: []byte("request")}
		var out [][]byte
		for i := range gap + 2 {
			msg := append([]byte{0, 7, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0}, byte(i))[:12]
			msg[3] = byte(i)
			if i == 0 || i == gap+1 {
				out = append(out, s.sign(bytes.Clone(msg), now, 0, 0))
				continue
			}
			if s.loose == nil {
				s.loose = s.begin()
			}
			s.loose.Write(msg)
			out = append(out, msg)
		}
		return &session{key: key, prior: []byte("request")}, out
	}
	check, msgs := stream(99)
	for i, msg := range msgs {
		_, whole, err := check.verify(msg, now)
		if err != nil || whole != (i == 0 || i == len(msgs)-1) {
			t.Fatalf("message %d: verify returned whole %v, error %v", i, whole, err)
		}
	}
	check, msgs = stream(99)
	msgs[40][3] ^= 1
	var last error
	for _, msg := range msgs {
		_, _, last = check.verify(msg, now)
	}
	if last == nil || !strings.Contains(last.Error(), "wrong") {
		t.Errorf("a changed message: got %v, want that its signature is wrong", last)
	}
	check, msgs = stream(100)
	for _, msg := range msgs {
		if _, _, last = check.verify(msg, now); last != nil {
			break
		}
	}
	if last == nil || !strings.Contains(last.Error(), "without a signature") {
		t.Errorf("100 messages without a signature: got %v, want an error", last)
	}
}

func TestBadRequestsGetAReason(t *testing.T) {
	now := time.Now()
	keys := testKeys(t, "hmac-sha256")
	others, err := NewKeys([]KeyConfig{{Name: "other.example", Secret: secret}})
	if err != nil {
		t.Fatal(err)
	}
	good, _ := theirs(t, "hmac-sha256", now)
	late, _ := theirs(t, "hmac-sha256", now.Add(-time.Hour))
	bad := bytes.Clone(good)
	bad[2] ^= 1 // RD
	sha512, _ := theirs(t, "hmac-sha512", now)
	for name, tt := range map[string]struct {
		keys   Keys
		msg    []byte
		want   uint16
		signed bool
	}{
		"good":              {keys, good, 0, true},
		"unknown key":       {others, good, badKey, false},
		"another algorithm": {keys, sha512, badKey, false},
		"changed":           {keys, bad, badSig, false},
		"late":              {keys, late, badTime, true},
	} {
		at, err := findTSIG(tt.msg)
		if err != nil {
			t.Fatal(err)
		}
		key, r, code, err := tt.keys.authenticate(tt.msg, at, now)
		if err != nil || code != tt.want || (key != nil) != tt.signed {
			t.Errorf("%s: code %d, key %v, %v; want code %d", name, code, key, err, tt.want)
		}
		reply := r.answer(key, code, bytes.Clone(tt.msg[:12]), now)
		reply[5], reply[11] = 0, 1
		var m miekg.Msg
		if err := m.Unpack(reply); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ts := m.IsTsig()
		if ts == nil || ts.Error != tt.want || (ts.MACSize > 0) != tt.signed {
			t.Errorf("%s: the answer has TSIG %v", name, ts)
		}
		if tt.want == badTime && (ts.OtherLen != 6 || ts.TimeSigned != r.time) {
			t.Errorf("%s: BADTIME without our time: %v", name, ts)
		}
	}
}

func TestBadKeysOfTransfers(t *testing.T) {
	for name, tt := range map[string]struct {
		c    KeyConfig
		want string
	}{
		"name":      {KeyConfig{Name: "", Secret: secret}, "[0].name"},
		"algorithm": {KeyConfig{Name: "a", Algorithm: "hmac-md5", Secret: secret}, "[0].algorithm"},
		"base64":    {KeyConfig{Name: "a", Secret: "!!"}, "[0].secret"},
		"short":     {KeyConfig{Name: "a", Secret: "c2hvcnQ="}, "[0].secret"},
		"both":      {KeyConfig{Name: "a", Secret: secret, SecretFile: "/x"}, "[0].secret-file"},
		"no file":   {KeyConfig{Name: "a", SecretFile: "/nowhere/x"}, "[0].secret-file"},
	} {
		if _, err := NewKeys([]KeyConfig{tt.c}); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: NewKeys returned %v, want %q", name, err, tt.want)
		}
	}
	if _, err := NewKeys([]KeyConfig{{Name: "a", Secret: secret}, {Name: "A.", Secret: secret}}); err == nil {
		t.Error("NewKeys accepted two keys of one name")
	}
}

func FuzzTSIG(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	keys := testKeys(f, "hmac-sha256")
	good, _ := theirs(f, "hmac-sha256", now)
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xc0, 12, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, msg []byte) {
		at, err := findTSIG(msg)
		if err != nil || at == 0 {
			return
		}
		key, r, code, err := keys.authenticate(msg, at, now)
		if err != nil {
			return
		}
		if code == 0 && key == nil {
			t.Fatal("Verify returned code 0 without a key")
		}
		reply := r.answer(key, code, bytes.Clone(msg[:12]), now)
		s := &session{key: keys["key.example."], prior: bytes.Clone(r.mac)}
		_, _, _ = s.verify(reply, now)
		_, _, _ = s.verify(msg, now)
	})
}
