package setting

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// A File is a file or folder that the settings name and the program reads. A
// relative one is relative to the folder of the settings file ([Locate]). The
// part that names it is rebuilt when it changes ([Files]).
type File string

// A Source is a file or folder that the part which reads it also watches, such
// as a zone file. It is relative to the folder of the settings file, as a File
// is, and not among [Files].
type Source string

// A Folder is a folder the program writes to. It is relative to the folder of
// the settings file, as a File is, but is not watched.
type Folder string

// Path joins a path of the settings to dir, the folder of the settings file.
// An absolute one stays as it is, "" stays empty and "off" becomes empty.
func Path(dir, path string) string {
	if path == offWord {
		return ""
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// Named is implemented by values that name files in a form of their own, such
// as "@FILE" in a list of words.
type Named interface {
	// MoveFiles replaces each path in the value by what to returns for it.
	MoveFiles(to func(path string) string)
}

// Locate makes every File, Source and Folder in the settings that v points to
// relative to dir. The settings must be a tree: a File that two pointers share
// would be joined twice.
func Locate(v any, dir string) { move(v, func(path string) string { return Path(dir, path) }, true) }

// Move replaces the path of every File and Source in the settings that v points
// to by what to returns for it.
func Move(v any, to func(path string) string) { move(v, to, false) }

func move(v any, to func(string) string, folders bool) {
	each(reflect.ValueOf(v), func(f reflect.Value) {
		if f.String() != "" && (folders || f.Type() != folderType) {
			f.SetString(to(f.String()))
		}
	}, func(n Named) { n.MoveFiles(to) })
}

// Files lists every File that the settings v name, sorted, each once. It is
// called after Locate.
func Files(v any) []string {
	var all []string
	add := func(path string) string {
		if path != "" {
			all = append(all, path)
		}
		return path
	}
	each(reflect.ValueOf(v), func(f reflect.Value) {
		if f.Type() == fileType {
			add(f.String())
		}
	}, func(n Named) { n.MoveFiles(add) })
	slices.Sort(all)
	return slices.Compact(all)
}

var (
	fileType   = reflect.TypeFor[File]()
	sourceType = reflect.TypeFor[Source]()
	folderType = reflect.TypeFor[Folder]()
)

// each calls file for every File, Source and Folder below v and named for every Named.
func each(v reflect.Value, file func(reflect.Value), named func(Named)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			each(v.Elem(), file, named)
		}
		return
	case reflect.Invalid:
		return
	}
	if v.CanAddr() && v.Addr().CanInterface() {
		if n, ok := v.Addr().Interface().(Named); ok {
			named(n)
			return
		}
	} else if v.CanInterface() {
		if n, ok := v.Interface().(Named); ok {
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
				each(v.Field(i), file, named)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			each(v.Index(i), file, named)
		}
	case reflect.Map:
		eachOfMap(v, file, named)
	}
}

// eachOfMap visits the values of a map through copies, since they cannot be
// changed in place.
func eachOfMap(v reflect.Value, file func(reflect.Value), named func(Named)) {
	for _, key := range v.MapKeys() {
		c := reflect.New(v.Type().Elem()).Elem()
		c.Set(v.MapIndex(key))
		each(c, file, named)
		v.SetMapIndex(key, c)
	}
}
