package sign

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"shuultuur/zone"
)

// This file says in text what keys and signatures are, for people and for other programs.

// Delegations returns the DS records of keys in files: those of keys that sign other keys, or of all if
// there is none.
func Delegations(files []string) (records []string, err error) {
	var keys []*Key
	alone := true // no key signs other keys; each signs everything
	for _, file := range files {
		k, err := Load(file)
		if err != nil {
			return nil, err
		}
		alone = alone && !k.KSK()
		keys = append(keys, k)
	}
	for _, k := range keys {
		if k.KSK() || alone {
			records = append(records, k.delegation())
		}
	}
	return records, nil
}

func (k *Key) delegation() string { return strings.ReplaceAll(k.DS().String(), "\t", " ") }

// NextKey begins to change the key of a zone, and says what the parent zone is to have.
func NextKey(dir, origin string, now time.Time) (string, error) {
	old, next, err := BeginRoll(dir, origin, now)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("key %d takes the place of %d; its DS, for the parent once CDS shows it:\n%s", next.Tag, old.Tag, next.delegation()), nil
}

// SayFinished ends the change of a key whose DS record the parent zone has, and says so.
func SayFinished(dir, origin string, now time.Time) (string, error) {
	k, err := FinishRoll(dir, origin, now)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("the parent has key %d; the previous key is removed when nobody needs it", k.Tag), nil
}

// Print signs the zone in a file and writes its records, one on each line.
func Print(ctx context.Context, c Config, origin, file string, w io.Writer) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	z, err := zone.Read(in, origin, file)
	if err != nil {
		return err
	}
	s, err := New(origin, c)
	if err != nil {
		return err
	}
	signed, err := s.Zone(ctx, z, time.Now())
	if err != nil {
		return err
	}
	for _, rr := range signed.Records {
		if _, err := fmt.Fprintln(w, rr); err != nil {
			return err
		}
	}
	return nil
}
