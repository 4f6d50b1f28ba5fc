package setting

import (
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"hash"
	"reflect"
	"sort"
	"strconv"
)

// Digest returns a digest of all values in the settings v, except functions.
func Digest(v any) string {
	h := sha256.New()
	digest(h, reflect.ValueOf(v), 0)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// maxDepth bounds how deep settings may be nested; they are a tree.
const maxDepth = 64

func digest(h hash.Hash, v reflect.Value, depth int) {
	if depth > maxDepth || !v.IsValid() {
		return
	}
	if v.CanInterface() && v.Kind() != reflect.Pointer {
		if m, ok := v.Interface().(encoding.TextMarshaler); ok {
			text, err := m.MarshalText()
			fmt.Fprintf(h, "%s%d %s%v", v.Type(), len(text), text, err)
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if fmt.Fprint(h, v.IsNil()); !v.IsNil() {
			digest(h, v.Elem(), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fmt.Fprint(h, v.Type().Field(i).Name, " ")
			digest(h, v.Field(i), depth+1)
		}
	case reflect.Slice, reflect.Array:
		fmt.Fprint(h, v.Len(), v.Kind() == reflect.Slice && v.IsNil(), " ")
		for i := range v.Len() {
			digest(h, v.Index(i), depth+1)
		}
	case reflect.Map:
		fmt.Fprint(h, v.Len(), v.IsNil(), " ")
		keys := v.MapKeys()
		sort.Slice(keys, func(i, j int) bool { return fmt.Sprint(keys[i]) < fmt.Sprint(keys[j]) })
		for _, k := range keys {
			digest(h, k, depth+1)
			digest(h, v.MapIndex(k), depth+1)
		}
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
	default:
		fmt.Fprint(h, strconv.Quote(fmt.Sprint(v)), " ")
	}
}
