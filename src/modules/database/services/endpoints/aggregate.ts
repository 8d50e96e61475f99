/** Endpoints that count and add up (`operation` 5, ours): their rules and the shape of their answer. */

import type { TSchema } from 'typebox';
import Type from 'typebox';
import { resolveTarget, type TargetAccess } from '../../../../data/records/filter/target.ts';
import { bindAggregate } from '../../../../data/records/read/aggregate.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import type { EndpointAggregate } from './definition.ts';

interface Context {
  readonly schema: CompiledSchema;
  readonly schemas: SchemaRegistry;
}

const accessOf = ({ schemas }: Context): TargetAccess => ({
  schema: (name) => schemas.get(name),
  hidden: false,
});

const keyRule = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/;

export function aggregateProblems(
  context: Context,
  { groupBy = [], values }: EndpointAggregate,
): readonly Problem[] {
  const names = values.flatMap(({ as }, index): Problem[] => {
    if (keyRule.test(as) && !(as in Object.prototype)) return [];
    return [
      {
        path: `aggregate.values.${index}.as`,
        rule: 'name',
        message: 'starts with a letter or _, then letters, digits and _',
      },
    ];
  });
  try {
    bindAggregate(context.schema, { groupBy, values }, accessOf(context));
    return names;
  } catch (error) {
    const { errors } = error as { readonly errors?: readonly Problem[] };
    if (!errors) throw error;
    return [...names, ...errors];
  }
}

/** One object of the answer. */
export function aggregateRow(
  context: Context,
  { groupBy = [], values }: EndpointAggregate,
): TSchema {
  const access = accessOf(context);
  const fieldShape = (path: string): TSchema =>
    orNull(scalarShape(resolveTarget(context.schema, path, access).field.kind));
  const groups = groupBy.map((path) => [path, fieldShape(path)] as const);
  const results = values.map(({ as, function: name, field }) => {
    if (name === 'count' || name === 'distinct') return [as, Type.Integer({ minimum: 0 })] as const;
    if (name === 'sum' || name === 'avg' || field === undefined)
      return [as, orNull(Type.Number())] as const;
    return [as, fieldShape(field)] as const;
  });
  return Type.Object(Object.fromEntries([...groups, ...results]));
}

const orNull = (shape: TSchema): TSchema => Type.Union([shape, Type.Null()]);

function scalarShape(kind: string): TSchema {
  if (kind === 'number') return Type.Number();
  if (kind === 'boolean') return Type.Boolean();
  if (kind === 'date') return Type.String({ format: 'date-time' });
  return kind === 'string' ? Type.String() : Type.String({ format: 'uuid' });
}
