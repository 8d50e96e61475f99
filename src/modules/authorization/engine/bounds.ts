/**
 * Truth of which not everything may be known: the lower bound (`sure`) and the
 * upper bound (`possible`). They differ only where a value that a condition
 * needs is missing, or where something lies beyond the depth limit.
 */
export interface Bounds {
  readonly sure: boolean;
  readonly possible: boolean;
}

export const no: Bounds = { sure: false, possible: false };
export const yes: Bounds = { sure: true, possible: true };
export const unknown: Bounds = { sure: false, possible: true };

const bounds = (sure: boolean, possible: boolean): Bounds => (sure ? yes : possible ? unknown : no);

export const either = (all: readonly Bounds[]): Bounds =>
  bounds(
    all.some((b) => b.sure),
    all.some((b) => b.possible),
  );

export const both = (all: readonly Bounds[]): Bounds =>
  bounds(
    all.every((b) => b.sure),
    all.every((b) => b.possible),
  );

export const without = (base: Bounds, subtract: Bounds): Bounds => bounds(base.sure && !subtract.possible, base.possible && !subtract.sure);
