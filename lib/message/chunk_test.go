package message

import "testing"

func TestTrailerCannotInject(t *testing.T) {
	got := string(AppendLastChunk(nil, Fields{
		{[]byte("Host"), []byte("a\r\nX: y")},
		{[]byte("A\r\nB: c\r\n\r\nGET"), []byte("v\x00\t\x7f\r\n\r\n")},
		{nil, []byte("nameless")},
	}))
	want := "0\r\nHost: a  X: y\r\nA--B--c----GET: v \t     \r\n\r\n"
	if got != want {
		t.Errorf("AppendLastChunk wrote %q\nwant %q", got, want)
	}
}

func TestFieldsKeepOrderAndCase(t *testing.T) {
	var f Fields
	f.Add("A", "1")
	f.Add("b", "2")
	f.Add("a", "3")
	f.Add("C", "x;q=1, Close ,y")
	f.Set("B", "4")
	f.Set("D", "5")
	f.Del("A")
	if got, want := string(appendFields(nil, f)), "b: 4\r\nC: x;q=1, Close ,y\r\nD: 5\r\n"; got != want {
		t.Errorf("the fields are %q, want %q", got, want)
	}
	if !f.HasToken("c", "close") || !f.HasToken("c", "X") || f.HasToken("c", "q=1") || f.Has("a") || string(f.Get("B")) != "4" {
		t.Error("Has, HasToken or Get returned a wrong value")
	}
}
