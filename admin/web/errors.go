package web

import (
	"errors"
	"net/http"

	"shuultuur/list/collection"
)

// A BadChange is an error in a requested change, not of the gateway.
type BadChange struct{ Err error }

func (e *BadChange) Error() string { return e.Err.Error() }

func (e *BadChange) Unwrap() error { return e.Err }

// StatusOf returns the HTTP status for an error of a requested change.
func StatusOf(err error) int {
	var bad *BadChange
	var badList *collection.BadChange
	var others *NotOwn
	switch {
	case errors.As(err, &others), errors.As(err, new(*Forbidden)), errors.As(err, new(*NeedsSecond)), errors.Is(err, ErrTwoPeople), errors.Is(err, ErrTwoErase):
		return http.StatusForbidden
	case errors.Is(err, collection.ErrNoList):
		return http.StatusNotFound
	case errors.As(err, &bad), errors.As(err, &badList):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// A NotOwn reports a change that only another user may make.
type NotOwn struct{ Err error }

func (e *NotOwn) Error() string { return e.Err.Error() }

func (e *NotOwn) Unwrap() error { return e.Err }

// Settings can give power: who writes them could become an owner. The types of the settings say by
// tags which keys only an owner may change, and which values only an owner may see (package setting).
// Everyone else sees placeholders in place of these values, and may save them back.

// A Forbidden is a change of settings that only an owner may make.
type Forbidden struct {
	Key string // or the path of a file that belongs to the gateway
	Err error  // more about it, or nil
}

func (e *Forbidden) Error() string {
	text := e.Key + ": only an owner may change this in the settings"
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Forbidden) Unwrap() error { return e.Err }
