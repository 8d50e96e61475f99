/** Compiled statements, kept per schema and shape, so that a request only fills in values. */
import { LRUCache } from 'lru-cache';
import type { Statement, StatementClass } from '../../../kernel/database/database.ts';
import { statementName } from '../../../kernel/database/sql.ts';
import type { RowPredicate, RowUse } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';

/* Values of one statement, in the order of their placeholders. */

export interface Parameters {
  readonly values: unknown[];
  /** Adds a value and answers its placeholder. */
  next(value: unknown): string;
}

/** Bytes that are the same object are sent once. */
interface SharingParameters extends Parameters {
  /** Which placeholders stand for bytes that were there already; part of what decides the text. */
  readonly shared: string;
}

export function createParameters(values: unknown[] = []): SharingParameters {
  const bytes = new Map<Uint8Array, string>();
  const parameters = {
    values,
    shared: '',
    next(value: unknown): string {
      if (!(value instanceof Uint8Array)) return `$${values.push(value)}`;
      const known = bytes.get(value);
      if (known === undefined) {
        const place = `$${values.push(value)}`;
        bytes.set(value, place);
        return place;
      }
      parameters.shared += ` ${values.length}${known}`;
      return known;
    },
  };
  return parameters;
}

/** `and <predicate>` for rows of `alias`, or nothing. */
export const restriction = (
  predicate: RowPredicate | undefined,
  alias: string,
  parameters: Parameters,
  use: RowUse = 'rows',
): string =>
  predicate ? ` and (${predicate.compile(`${alias}."_id"`, parameters.next, use, alias)})` : '';

/** Shapes kept per schema; callers can ask for many orders and relations. */
const MAX_SHAPES = 200;
/** Prepared statements per schema: each costs memory on every connection of the server. */
const MAX_NAMED = 100;
/** A rare shape is not worth a prepared statement. */
const USES_BEFORE_NAMED = 3;

interface Plan {
  readonly text: string;
  uses: number;
  name: string | undefined;
}

/** What a predicate adds to a statement. */
interface Added {
  readonly values: readonly unknown[];
  readonly shared: string;
}

/** By the shapes of statements. */
type AddedValues = Map<string, Added>;
/** Statements that are remembered of one predicate. */
const MAX_REMEMBERED = 20;

interface SchemaPlans {
  readonly plans: LRUCache<string, Plan>;
  /** By the identity of the predicate. */
  readonly added: WeakMap<object, AddedValues>;
  named: number;
  /** What was asked for last: mostly the same again. */
  last: { readonly shape: string; readonly plan: Plan } | undefined;
}

/** One use of a statement. */
interface StatementRequest {
  readonly schema: CompiledSchema;
  /** Must decide the text. */
  readonly shape: string;
  /** Values of the first placeholders. */
  readonly values: unknown[];
  /** Compiling adds values that differ from call to call (permission predicates). */
  readonly dynamic: boolean;
  /** Of a dynamic statement: what it adds is the same for the same object here (`RowPredicate.identity`). */
  readonly identity?: object | undefined;
  /** The end of a dynamic statement, whose values are always others. Its text is always the same. */
  readonly guard?: RowPredicate['guard'] | undefined;
  /** `short` for a statement that touches few rows by their ids; `pooled` unless set. */
  readonly class?: StatementClass;
  /** The row that it changes; empty for a new one. */
  readonly changes?: string;
}

/** `guardText`: the text of the guard, whose values come last. */
type Compile = (parameters: Parameters, guardText: () => string) => string;

export interface PlanCache {
  /**
   * The statement of a shape; `compile` makes its text, for a dynamic one each time because it also adds the values, unless
   * they are known.
   */
  statement(request: StatementRequest, compile: Compile): Statement;
}

/** The text of a statement; its values are added to the parameters. */
const textOf = (
  { guard }: Pick<StatementRequest, 'guard'>,
  compile: Compile,
  parameters: Parameters,
): string => compile(parameters, () => guard?.(parameters.next) ?? 'true');

interface Compiled {
  readonly shared: string;
  /** Absent where it did not have to be compiled. */
  readonly text?: string;
}

/** Adds the values of a dynamic statement. */
function addValues({ added }: SchemaPlans, request: StatementRequest, compile: Compile): Compiled {
  const { identity, shape, values, guard } = request;
  const parameters = createParameters(values);
  if (!identity) {
    const text = textOf(request, compile, parameters);
    return { text, shared: parameters.shared };
  }
  const known: AddedValues = added.get(identity) ?? new Map();
  if (known.size === 0) added.set(identity, known);
  const remembered = known.get(shape);
  if (remembered) {
    values.push(...remembered.values);
    guard?.(parameters.next);
    return { shared: remembered.shared };
  }
  const given = values.length;
  let end: number | undefined;
  const text = compile(parameters, () => {
    end = values.length;
    return guard?.(parameters.next) ?? 'true';
  });
  if (known.size >= MAX_REMEMBERED) known.clear();
  const { shared } = parameters;
  known.set(shape, { values: values.slice(given, end), shared });
  return { text, shared };
}

const nothingAdded: Compiled = { shared: '' };

export function createPlanCache(): PlanCache {
  // A changed schema is another object: its plans go with it.
  const bySchema = new WeakMap<CompiledSchema, SchemaPlans>();

  function plansOf(schema: CompiledSchema): SchemaPlans {
    let plans = bySchema.get(schema);
    if (!plans) {
      plans = {
        plans: new LRUCache({ max: MAX_SHAPES }),
        added: new WeakMap(),
        named: 0,
        last: undefined,
      };
      bySchema.set(schema, plans);
    }
    return plans;
  }

  function planOf(owned: SchemaPlans, shape: string, text: () => string): Plan {
    if (owned.last?.shape === shape && owned.last.plan.name !== undefined) return owned.last.plan;
    let plan = owned.plans.get(shape);
    if (!plan) {
      plan = { text: text(), uses: 0, name: undefined };
      owned.plans.set(shape, plan);
    }
    owned.last = { shape, plan };
    if (plan.name === undefined && ++plan.uses >= USES_BEFORE_NAMED && owned.named < MAX_NAMED) {
      owned.named++;
      plan.name = statementName(plan.text);
    }
    return plan;
  }

  return {
    statement(request, compile) {
      const { schema, shape, values, dynamic, class: kind = 'pooled', changes } = request;
      const owned = plansOf(schema);
      const given = values.length;
      const { text, shared } = dynamic ? addValues(owned, request, compile) : nothingAdded;
      const plan = planOf(
        owned,
        shared === '' ? shape : shape + shared,
        () => text ?? textOf(request, compile, createParameters(values.slice(0, given))),
      );
      if (plan.name === undefined) return { text: plan.text, values, class: kind };
      const { text: known, name } = plan;
      if (changes === undefined) return { text: known, values, class: kind, name };
      return { text: known, values, class: kind, name, changes };
    },
  };
}
