/**
 * How far the statements of checks look, one after the other, per type and action. Where questions are about objects
 * that lead to others, looking at the object alone only comes before the statement that decides; where much is written
 * about most objects, looking at little of it does. What questions need is followed while they are asked.
 */
import type { Probe, ProbeReach, Question } from '../engine/engine.ts';

/** What statements found out about one question. */
export type Looks = { [reach in ProbeReach]?: Probe | undefined };

export interface ProbeOrder {
  of(question: Question): readonly ProbeReach[];
  note(question: Question, looks: Looks): void;
}

/** What the last questions of a kind needed, the latest most: shares between 0 and 1. */
interface Kind {
  /** More than what is written about the object. */
  far: number;
  /** More than little is written about it. */
  wide: number;
  asked: number;
}

/** How much one question counts among those before it: some fifty are remembered. */
const WEIGHT = 0.02;
/** Every so many questions look at the object first, whatever is known. */
const SAMPLED = 64;
/** Kinds that are remembered. */
const MAX_KINDS = 1_000;

const nearFirst: readonly ProbeReach[] = ['near', 'held', 'object', 'graph'];
const objectFirst: readonly ProbeReach[] = ['object', 'held', 'graph'];
const heldFirst: readonly ProbeReach[] = ['held', 'near', 'object', 'graph'];
const farOnly: readonly ProbeReach[] = ['held', 'graph'];

export function createProbeOrder(): ProbeOrder {
  const kinds = new Map<string, Kind>();
  const keyOf = ({ resource, action }: Question): string => `${resource.type}#${action}`;
  const newKind = (question: Question): Kind => {
    if (kinds.size >= MAX_KINDS) kinds.clear();
    const kind = { far: 0, wide: 0, asked: 0 };
    kinds.set(keyOf(question), kind);
    return kind;
  };
  return {
    of(question) {
      const kind = kinds.get(keyOf(question));
      if (!kind || ++kind.asked % SAMPLED === 0) return nearFirst;
      const isWide = kind.wide > 0.5;
      if (kind.far > 0.75) return farOnly;
      if (kind.far > 0.25) return isWide ? objectFirst : heldFirst;
      return isWide ? objectFirst : nearFirst;
    },
    note(question, looks) {
      const near = looks.near ?? looks.held;
      const alone = looks.object ?? near;
      if (!alone) return;
      const kind = kinds.get(keyOf(question)) ?? newKind(question);
      kind.far = shareOf(kind.far, alone.allowed === undefined || alone.leads === true);
      if (near) kind.wide = shareOf(kind.wide, !near.whole);
    },
  };
}

const shareOf = (before: number, isSo: boolean): number =>
  before + (Number(isSo) - before) * WEIGHT;

/** What such a statement would look at was looked at already. */
export const isNeedless = (reach: ProbeReach, looks: Looks): boolean =>
  (reach === 'object' && (looks.near ?? looks.held)?.whole === true) ||
  (reach === 'near' && looks.held !== undefined) ||
  // What stands there is more than it takes.
  (reach === 'held' && looks.near?.whole === false);
