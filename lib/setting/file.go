package setting

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// A File is a file or folder that the settings name and the program reads, relative to the
// folder of the settings file ([Locate]). When it changes, the part that names it is rebuilt
// ([Files]).
type File string

// A Source is a file or folder that its reader also watches, such as a zone file. It is
// relative to the folder of the settings file, and not among [Files].
type Source string

// A Folder is a folder to which the program writes. It is relative to the folder of the
// settings file, and not watched.
type Folder string

// Path joins a path of the settings to dir, the folder of the settings file. An absolute path
// stays unchanged; "" and "off" become "".
func Path(dir, path string) string {
	if path == offWord {
		return ""
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// FileNamer is implemented by values that name files in their own syntax, such as "@FILE" in a
// list of words.
type FileNamer interface {
	// MoveFiles replaces each path in the value by the result of to.
	MoveFiles(to func(path string) string)
}

// Locate makes every File, Source and Folder in the settings v relative to dir. The settings
// must be a tree: a File reached by two pointers would be joined twice.
func Locate(v any, dir string) { move(v, func(path string) string { return Path(dir, path) }, true) }

// Move replaces the path of every File and Source in the settings v by the result of to.
func Move(v any, to func(path string) string) { move(v, to, false) }

func move(v any, to func(string) string, folders bool) {
	eachFile(reflect.ValueOf(v), func(f reflect.Value) {
		if f.String() != "" && (folders || f.Type() != folderType) {
			f.SetString(to(f.String()))
		}
	}, func(n FileNamer) { n.MoveFiles(to) })
}

// Paths lists every File, Source and Folder in the settings v, sorted and without duplicates. Call it
// after Locate.
func Paths(v any) (all []string) {
	add := func(path string) string {
		if path != "" {
			all = append(all, path)
		}
		return path
	}
	eachFile(reflect.ValueOf(v), func(f reflect.Value) { add(f.String()) }, func(n FileNamer) { n.MoveFiles(add) })
	slices.Sort(all)
	return slices.Compact(all)
}

// Files lists every File in the settings v, sorted and without duplicates. Call it after
// Locate.
func Files(v any) []string {
	var all []string
	add := func(path string) string {
		if path != "" {
			all = append(all, path)
		}
		return path
	}
	eachFile(reflect.ValueOf(v), func(f reflect.Value) {
		if f.Type() == fileType {
			add(f.String())
		}
	}, func(n FileNamer) { n.MoveFiles(add) })
	slices.Sort(all)
	return slices.Compact(all)
}

// Absent returns a mistake for each place where the text names a File or Source of the settings v that
// is not there, but for those that known tells. v is located beside the file of the text.
func (t *Text) Absent(v any, known Mistakes) (m Mistakes) {
	gone := map[string]bool{}
	add := func(path string) string {
		if _, err := os.Stat(path); path != "" && errors.Is(err, fs.ErrNotExist) {
			gone[path] = true
		}
		return path
	}
	eachFile(reflect.ValueOf(v), func(f reflect.Value) {
		if f.Type() != folderType {
			add(f.String())
		}
	}, func(n FileNamer) { n.MoveFiles(add) })
	if len(gone) == 0 {
		return nil
	}
	_ = Walk(t.data, func(keys []string, line int, value string, comment bool) { // it was read before
		if comment || !gone[Path(filepath.Dir(t.File), strings.TrimPrefix(value, "@"))] {
			return
		}
		if !slices.ContainsFunc(known, func(k Mistake) bool { return k.Line == line && strings.Contains(k.Text, value) }) {
			m = append(m, Mistake{File: t.File, Line: line, Key: strings.Join(keys, "."), Text: value + ": no such file"})
		}
	})
	return m
}

var (
	fileType   = reflect.TypeFor[File]()
	sourceType = reflect.TypeFor[Source]()
	folderType = reflect.TypeFor[Folder]()
)

// eachFile calls file for every File, Source and Folder below v and named for every Named.
func eachFile(v reflect.Value, file func(reflect.Value), named func(FileNamer)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			eachFile(v.Elem(), file, named)
		}
		return
	case reflect.Invalid:
		return
	}
	if v.CanAddr() && v.Addr().CanInterface() {
		if n, ok := v.Addr().Interface().(FileNamer); ok {
			named(n)
			return
		}
	} else if v.CanInterface() {
		if n, ok := v.Interface().(FileNamer); ok {
			named(n)
			return
		}
	}
	switch v.Kind() {
	case reflect.String:
		if t := v.Type(); t == fileType || t == sourceType || t == folderType {
			file(v)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !strings.HasPrefix(f.Tag.Get("yaml"), "-") {
				eachFile(v.Field(i), file, named)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			eachFile(v.Index(i), file, named)
		}
	case reflect.Map:
		eachOfMap(v, file, named)
	}
}

// eachOfMap visits copies of a map's values, because they cannot be changed in place.
func eachOfMap(v reflect.Value, file func(reflect.Value), named func(FileNamer)) {
	for _, key := range v.MapKeys() {
		c := reflect.New(v.Type().Elem()).Elem()
		c.Set(v.MapIndex(key))
		eachFile(c, file, named)
		v.SetMapIndex(key, c)
	}
}
