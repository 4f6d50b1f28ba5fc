package lua

import (
	"errors"
	"reflect"
	"time"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
)

// concat is the global name of the function that joins strings. No script can write this name.
const concat = "\x00concat"

// A budget limits the work of a call. Lua asks a context before each instruction whether it is
// done, so a context that counts limits the instructions. Library functions charge their work
// to it.
type budget struct {
	limits                      Limits
	left, bytes                 int
	asked                       uint      // number of Lua's questions, in all calls
	began                       time.Time // of this call
	overInstructions, overBytes bool
}

// longest limits the time of a call with expensive instructions, such as those on long
// strings. Others reach the limit of instructions first, even on a busy machine.
const longest = time.Second

var (
	closed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
	open   = make(chan struct{})

	errInstructions = errors.New("the script executes too many instructions")
	errBytes        = errors.New("the script makes too many bytes of strings")
)

func (b *budget) reset() {
	b.left, b.bytes = b.limits.Instructions, b.limits.Bytes
	b.overInstructions, b.overBytes = false, false
	b.began = time.Now()
}

// Done implements context.Context.
func (b *budget) Done() <-chan struct{} {
	b.asked++
	if b.left--; b.left < 0 || b.asked%256 == 0 && time.Since(b.began) > longest {
		b.overInstructions = true
		return closed
	}
	return open
}

// Err implements context.Context.
func (b *budget) Err() error {
	if b.overInstructions {
		return errInstructions
	}
	return nil
}

// Deadline implements context.Context.
func (b *budget) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context.
func (b *budget) Value(any) any { return nil }

// step charges n instructions.
func (b *budget) step(l *lua.LState, n int) {
	if b.left -= n; b.left < 0 {
		b.overInstructions = true
		l.RaiseError("%s", errInstructions)
	}
}

// take charges n bytes.
func (b *budget) take(l *lua.LState, n int) {
	if b.bytes -= n; b.bytes < 0 {
		b.overBytes = true
		l.RaiseError("%s", errBytes)
	}
}

// guard replaces each concatenation by a call of a function that counts bytes, because an
// instruction that doubles a string costs as much as any other.
func guard(chunk []ast.Stmt) {
	walk(reflect.ValueOf(&chunk).Elem(), map[uintptr]bool{})
}

var exprType = reflect.TypeOf((*ast.Expr)(nil)).Elem()

func walk(v reflect.Value, seen map[uintptr]bool) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		walk(v.Elem(), seen)
		if x, ok := v.Interface().(*ast.StringConcatOpExpr); ok && v.Type() == exprType && v.CanSet() {
			f := &ast.FuncCallExpr{Func: &ast.IdentExpr{Value: concat}, Args: []ast.Expr{x.Lhs, x.Rhs}}
			f.SetLine(x.Line())
			f.SetLastLine(x.LastLine())
			f.Func.SetLine(x.Line())
			f.Func.SetLastLine(x.LastLine())
			v.Set(reflect.ValueOf(f))
		}
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] {
			return
		}
		seen[v.Pointer()] = true
		walk(v.Elem(), seen)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i), seen)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), seen)
		}
	}
}
