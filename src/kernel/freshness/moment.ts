/**
 * Moments for leases. A process that is paused or a machine that sleeps notices it here, at the first
 * look at the clock, before any timer has run.
 */

/** On both clocks: `performance.now()`, which nobody sets, and the wall clock, which goes on while a machine sleeps. */
export interface Moment {
  readonly steady: number;
  readonly wall: number;
}

export const thisMoment = (): Moment => ({ steady: performance.now(), wall: Date.now() });

/** Whether less than `ms` have passed by either clock. A wall clock that was set back counts as time that passed. */
export const isYounger = ({ steady, wall }: Moment, ms: number): boolean =>
  performance.now() - steady < ms && Math.abs(Date.now() - wall) < ms;

export const earlier = (a: Moment, b: Moment): Moment => (a.steady < b.steady ? a : b);
