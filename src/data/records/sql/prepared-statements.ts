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

export function createParameters(values: unknown[] = []): Parameters {
  return { values, next: (value) => `$${values.push(value)}` };
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

/** Values that a predicate adds to statements, by their shapes. */
type AddedValues = Map<string, readonly unknown[]>;
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

/** Adds the values of a dynamic statement. Answers its text when it had to be compiled for them. */
function addValues(
  { added }: SchemaPlans,
  request: StatementRequest,
  compile: Compile,
): string | undefined {
  const { identity, shape, values, guard } = request;
  const parameters = createParameters(values);
  if (!identity) return textOf(request, compile, parameters);
  const known: AddedValues = added.get(identity) ?? new Map();
  if (known.size === 0) added.set(identity, known);
  const remembered = known.get(shape);
  if (remembered) {
    values.push(...remembered);
    guard?.(parameters.next);
    return undefined;
  }
  const given = values.length;
  let end: number | undefined;
  const text = compile(parameters, () => {
    end = values.length;
    return guard?.(parameters.next) ?? 'true';
  });
  if (known.size >= MAX_REMEMBERED) known.clear();
  known.set(shape, values.slice(given, end));
  return text;
}

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
      const text = dynamic ? addValues(owned, request, compile) : undefined;
      const plan = planOf(
        owned,
        shape,
        () => text ?? textOf(request, compile, createParameters(values.slice(0, given))),
      );
      if (plan.name === undefined) return { text: plan.text, values, class: kind };
      const { text: known, name } = plan;
      if (changes === undefined) return { text: known, values, class: kind, name };
      return { text: known, values, class: kind, name, changes };
    },
  };
}
