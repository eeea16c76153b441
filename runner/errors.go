package main

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// fields is a JSON object on its way to a client.
type fields = map[string]any

// A runnerError is a failure that the client is told about. Its code and the
// fields of its detail are a row of the contract's ERRORS table.
type runnerError struct {
	code    string
	message string
	detail  fields
}

func (e *runnerError) Error() string { return e.message }

// The codes that the runner may send; errors_test.go compares them with the contract.
const (
	codeInvalidRequest   = "INVALID_REQUEST"
	codeUnauthorized     = "UNAUTHORIZED"
	codePermissionDenied = "PERMISSION_DENIED"
	codeShellNotFound    = "SHELL_NOT_FOUND"
	codeProcessNotFound  = "PROCESS_NOT_FOUND"
	codeFileNotFound     = "FILE_NOT_FOUND"
	codeShellExists      = "SHELL_EXISTS"
	codeFileExists       = "FILE_EXISTS"
	codeNotEmpty         = "NOT_EMPTY"
	codeShellExited      = "SHELL_EXITED"
	codePathOutside      = "PATH_OUTSIDE_WORKSPACE"
	codeIsADirectory     = "IS_A_DIRECTORY"
	codeNotADirectory    = "NOT_A_DIRECTORY"
	codeNotAFile         = "NOT_A_FILE"
	codeArchiveUnsafe    = "ARCHIVE_UNSAFE"
	codeBodyTooLarge     = "BODY_TOO_LARGE"
	codeRangeUnmet       = "RANGE_NOT_SATISFIABLE"
	codePortClosed       = "PORT_CLOSED"
	codeSlowReader       = "SLOW_READER"
	codeDiskFull         = "DISK_FULL"
	codeUnsupported      = "UNSUPPORTED"
	codeShuttingDown     = "SHUTTING_DOWN"
	codeTooManyWaiting   = "TOO_MANY_WAITING"
	codeInternal         = "INTERNAL"
)

// invalid is the error of a request that breaks a rule of the protocol.
func invalid(format string, args ...any) *runnerError {
	issue := fmt.Sprintf(format, args...)
	return &runnerError{codeInvalidRequest, issue, fields{"issue": issue}}
}

// tooManyWaiting is the error of a request that would wait behind too many others.
func tooManyWaiting(what string, limit int) *runnerError {
	return &runnerError{codeTooManyWaiting, fmt.Sprintf("too many %s (the limit is %d); try again later", what, limit), fields{"what": what, "limit": limit}}
}

// unsupported is the error of what cannot be had in this sandbox.
func unsupported(what string) *runnerError {
	return &runnerError{codeUnsupported, "not supported here: " + what, fields{"what": what}}
}

// pathErrors gives an errno of a file call its code; the text precedes the path.
var pathErrors = map[syscall.Errno]struct{ code, text string }{
	syscall.ENOENT:    {codeFileNotFound, "no such file or directory"},
	syscall.EACCES:    {codePermissionDenied, "permission denied"},
	syscall.EPERM:     {codePermissionDenied, "permission denied"},
	syscall.EROFS:     {codePermissionDenied, "read-only filesystem"},
	syscall.EEXIST:    {codeFileExists, "already exists"},
	syscall.ENOTEMPTY: {codeNotEmpty, "directory not empty"},
	syscall.EISDIR:    {codeIsADirectory, "is a directory"},
	syscall.ENOTDIR:   {codeNotADirectory, "not a directory"},
	syscall.ENOSPC:    {codeDiskFull, "no space left in the sandbox"},
	syscall.EDQUOT:    {codeDiskFull, "no space left in the sandbox"},
	syscall.EXDEV:     {codePathOutside, "path is not accessible through the file API"},
	syscall.ELOOP:     {codePathOutside, "path is not accessible through the file API"},
}

// pathError turns the failure of a call on path into what the client is told.
// An error that already has a code passes unchanged.
func pathError(path string, err error) error {
	var known *runnerError
	if err == nil || errors.As(err, &known) {
		return err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if row, ok := pathErrors[errno]; ok {
			return &runnerError{row.code, row.text + ": " + path, fields{"path": path}}
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &runnerError{codeFileNotFound, "no such file or directory: " + path, fields{"path": path}}
	}
	return fmt.Errorf("%s: %w", path, err)
}

// asRunnerError gives any error a code: what has none is INTERNAL.
func asRunnerError(err error) *runnerError {
	var known *runnerError
	if errors.As(err, &known) {
		return known
	}
	return &runnerError{codeInternal, err.Error(), fields{"message": err.Error()}}
}

// errorFields is what an error line says.
func errorFields(err error) fields {
	e := asRunnerError(err)
	detail := e.detail
	if detail == nil {
		detail = fields{}
	}
	return fields{"code": e.code, "message": e.message, "detail": detail}
}
