/**
 * The same as a check by what is written about an object (probe.ts), for the statement that reads the record: it loads
 * the tuples, and says which definitions are in force, at the moment of the record. Readers share that statement.
 */

import { statementName } from '../../../kernel/database/sql.ts';
import { andThen, type MaybePromise } from '../../../kernel/maybe-promise.ts';
import type { CheckKind, FoundForCheck } from '../../../kernel/record-check.ts';
import { keyOf, type Model, type Name } from '../model/model.ts';
import type { EngineScope, Resolved } from './ask.ts';
import type { Question, RecordProbe } from './engine.ts';
import { guardValues } from './grant-cache/change-tracker.ts';
import { type HeldReach, type HeldReaches, heldReach } from './held-reach.ts';
import { type NearTuple, nearTexts, tupleOf } from './near-tuples.ts';
import { askedOf, heldVerdict, isHeldPlainly, probeOf } from './probe.ts';
import { footprintOf } from './tuple-loading.ts';

/**
 * `near`: by what is written about the record alone. `held`: also by what the subject is known to reach. `undefined` where
 * tuples of the record do not decide, or what the subject reaches is not known.
 */
export function recordProbe(
  engineScope: EngineScope,
  question: Question,
  reach: 'near' | 'held',
  held: HeldReaches,
): MaybePromise<RecordProbe | undefined> {
  const { model } = engineScope;
  const asked = askedOf(model, question);
  if (!asked) return undefined;
  if (reach === 'near') return nearProbe(model, asked);
  if (!isHeldPlainly(model, asked)) return undefined;
  return andThen(
    heldReach(engineScope, asked, held),
    (reached) => reached && heldProbe(model, asked, reached, held),
  );
}

const nearProbe = (model: Model, asked: Resolved): RecordProbe => ({
  kind: kindOf(model, asked.name, false),
  values: [asked.object.type],
  probeOf: (found) =>
    probeOf(model, asked, { loaded: loadedOf(asked, found), context: {}, reach: 'near' }),
});

function heldProbe(
  model: Model,
  asked: Resolved,
  { objects, rests }: HeldReach,
  held: HeldReaches,
): RecordProbe {
  const guard = { ...rests, revision: model.revision };
  return {
    kind: kindOf(model, asked.name, true),
    values: [asked.object.type, ...guardValues(guard)],
    probeOf(found) {
      const loaded = loadedOf(asked, found);
      if (!loaded.stands) held.forget();
      return heldVerdict(model, asked, loaded, objects);
    },
  };
}

interface StateRow {
  readonly revision: number | string;
  readonly stands: boolean;
}

function loadedOf({ object }: Resolved, { state, written }: FoundForCheck) {
  const { revision, stands } = state as StateRow;
  const tuples = written.map((row) => tupleOf(row as NearTuple, object));
  return { revision: Number(revision), stands, tuples };
}

const stateColumns = { revision: 'bigint', stands: 'boolean' };
const tupleColumns = {
  subject_type: 'text',
  subject_id: 'text',
  subject_relation: 'text',
  relation: 'text',
  condition: 'text',
  attributes: 'jsonb',
};

const kindOf = (model: Model, name: Name, isGuarded: boolean): CheckKind =>
  model.derived(`record ${isGuarded} ${keyOf(name)}`, () => {
    const { tuples, state } = nearTexts(model, name.type, footprintOf(model, name));
    const text: CheckKind['text'] = ({ id, values: [type, ...guard] }) => ({
      state: { query: state(isGuarded ? guard : undefined), columns: stateColumns },
      written: {
        query: tuples({ type: `(select ${type}::text)`, id: `(${id})::text`, uuid: id }),
        columns: tupleColumns,
      },
    });
    const { state: moment, written } = text({ id: 'id', values: ['type', 'guard'] });
    return { key: statementName(moment.query + written.query), text };
  });
