// Package ui is the page of outboxgen ui: what internal/ops tells and mends, in a browser on
// the same machine. All of the page is embedded; it asks nobody but this server.
package ui

import (
	"context"

	"github.com/google/uuid"

	"github.com/outboxgen/outboxgen/internal/ops"
	"github.com/outboxgen/outboxgen/internal/spec"
)

// Source is what the page shows and changes; *ops.Service is one.
type Source interface {
	Model() *spec.Model

	Status(ctx context.Context) (ops.Status, error)
	Show(ctx context.Context, id uuid.UUID) (ops.Life, error)
	Find(ctx context.Context, q ops.Query) (ops.Page[ops.Event], error)
	Dead(ctx context.Context, q ops.DeadQuery) (ops.Page[ops.DeadEvent], error)
	Parked(ctx context.Context, q ops.ParkedQuery) (ops.Page[ops.ParkedEvent], error)
	Audit(ctx context.Context, q ops.AuditQuery) (ops.Page[ops.AuditEntry], error)

	PlanDead(ctx context.Context, sel ops.Selection) (ops.Plan, error)
	RedriveDead(ctx context.Context, plan ops.Plan, pace ops.Pace) ([]ops.Result, error)
	DiscardDead(ctx context.Context, plan ops.Plan, reason string, pace ops.Pace) ([]ops.Result, error)
	PlanParked(ctx context.Context, consumer string, sel ops.Selection) (ops.Plan, error)
	RedriveParked(ctx context.Context, plan ops.Plan, pace ops.Pace) ([]ops.Result, error)
	DiscardParked(ctx context.Context, plan ops.Plan, reason string, pace ops.Pace) ([]ops.Result, error)
	LastAudit(ctx context.Context, consumer string) (int64, error)
	RedriveResults(ctx context.Context, consumer string, ids []uuid.UUID, since int64) ([]ops.Result, int, error)
	PauseClaims(ctx context.Context, reason string) (*ops.Pause, bool, error)
	ResumeClaims(ctx context.Context) (*ops.Pause, error)
}
