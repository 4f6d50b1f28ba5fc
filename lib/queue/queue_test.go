package queue

import (
	"sync"
	"testing"
)

func key(id uint64) Key { return Key{Lo: id * 0x9E3779B97F4A7C15, Hi: id * 0xC2B2AE3D27D4EB4F} }

func TestQueueKeepsWhatIsAskedForAgain(t *testing.T) {
	q := New[int](100, 100)
	left := map[int]bool{}
	q.Evicted = func(_ Key, v int) { left[v] = true }
	for i := range 10 {
		q.Put(key(uint64(i)), i, 10)
	}
	for i := range 3 {
		if v, uses, ok := q.Get(key(uint64(i))); v != i || uses != 1 || !ok {
			t.Fatalf("Get(%d) = %d, %d, %v", i, v, uses, ok)
		}
	}
	for i := 10; i < 17; i++ {
		if !q.Put(key(uint64(i)), i, 10) {
			t.Fatalf("Put(%d) = false", i)
		}
	}
	for i := range 3 {
		if left[i] {
			t.Errorf("object %d was evicted although it was requested again", i)
		}
	}
	if q.Bytes() > 100 || q.Len() != 10 || len(left) != 7 {
		t.Errorf("the queue has %d bytes, %d objects, %d were evicted; want at most 100, 10, 7", q.Bytes(), q.Len(), len(left))
	}
	if q.Put(key(99), 99, 101) {
		t.Error("Put accepts an object larger than the queue")
	}
	if _, ok := q.Remove(key(0)); !ok {
		t.Error("Remove does not find an object")
	}
	if _, ok := q.Peek(key(0)); ok {
		t.Error("Peek finds a removed object")
	}
}

func TestQueueReplaces(t *testing.T) {
	q := New[int](100, 10)
	q.Put(key(1), 1, 10)
	q.Put(key(1), 2, 30)
	if v, _ := q.Peek(key(1)); v != 2 || q.Bytes() != 30 || q.Len() != 1 {
		t.Errorf("after the replacement: value %d, %d bytes, %d objects; want 2, 30, 1", v, q.Bytes(), q.Len())
	}
}

func TestSharedIsBoundedUnderConcurrentUse(t *testing.T) {
	const size = 1 << 10
	s := NewShared[int](size, 100, 4)
	var work sync.WaitGroup
	for g := range 4 {
		work.Go(func() {
			for i := range 1000 {
				k := key(uint64(i*7 + g))
				s.Put(k, i, 10)
				s.Get(k)
				s.Do(k, func(q *Queue[int]) {
					if _, ok := q.Peek(k); ok && i%3 == 0 {
						q.Remove(k)
					}
				})
			}
		})
	}
	work.Wait()
	n, bytes := 0, s.Bytes()
	for range s.All {
		n++
	}
	if bytes > size || int64(n)*10 != bytes || n < 50 {
		t.Errorf("%d objects, %d bytes of %d; want at least 50 objects of 10 bytes", n, bytes, size)
	}
	s.Remove(key(1))
	if _, ok := s.Get(key(1)); ok {
		t.Error("Get finds a removed object")
	}
}

func TestAChangedObjectKeepsItsPlaceAndIsCountedAnew(t *testing.T) {
	q := New[string](100, 100)
	q.Put(key(1), "a", 40)
	q.Put(key(2), "b", 40)
	q.Get(key(1))
	q.Change(key(1), "larger", 55)
	q.Change(key(3), "absent", 1)
	if v, uses, ok := q.Get(key(1)); v != "larger" || uses != 2 || !ok || q.Bytes() != 95 || q.Len() != 2 {
		t.Errorf("after Change: %q, %d uses, %v; %d bytes, %d objects", v, uses, ok, q.Bytes(), q.Len())
	}
	q.Change(key(1), "too large", 70)
	if q.Len() != 1 || q.Bytes() > 100 {
		t.Errorf("after Resize: %d objects with %d bytes are left, want 1 with at most 100", q.Len(), q.Bytes())
	}
}
