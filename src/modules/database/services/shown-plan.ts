/** What a change would do, as the admin surface shows it. */
import Type, { type Static } from 'typebox';
import type { SchemaPlan } from '../../../data/schema/plan/schema-plan.ts';

const loss = Type.Object({
  schema: Type.String(),
  field: Type.String({ description: 'Path of a field; * for the records themselves' }),
  records: Type.Integer({ description: 'Records that have a value there; of a large table the first 100,000 are looked at' }),
});

export const ShownPlan = Type.Object({
  schema: Type.String({ description: 'Names of the schemas that would change' }),
  steps: Type.Array(
    Type.Object({
      schema: Type.String(),
      statement: Type.String(),
      summary: Type.String({ description: 'What changes, in words' }),
      lock: Type.String({ description: 'Lock of PostgreSQL on the table' }),
      destructive: Type.Boolean(),
      rows: Type.Integer({ description: 'Records that the statement reads or writes, about' }),
      later: Type.Optional(Type.Boolean({ description: 'Runs after the change, beside reads and writes of the table' })),
    }),
  ),
  destructive: Type.Boolean({ description: 'Some step destroys data' }),
  renames: Type.Array(Type.Object({ schema: Type.String(), from: Type.String(), to: Type.String() }), {
    description: 'Fields that would have another name, with their data',
  }),
  hides: Type.Array(loss, { description: 'Fields that would be taken out; their data stays' }),
  loses: Type.Array(loss, { description: 'What would be destroyed' }),
  obstacles: Type.Array(Type.Object({ path: Type.String(), rule: Type.String(), message: Type.String() }), {
    description: 'Why the change would be refused as things are now',
  }),
  endpoints: Type.Array(Type.String(), { description: 'Custom endpoints that would no longer be served' }),
  checksum: Type.String({ description: 'Digest of the statements: equal plans have equal ones' }),
});

/** A plan, and the names of the endpoints that would break. */
export type PlanForAdmin = SchemaPlan & { readonly endpoints: readonly string[] };

export const shownPlan = ({
  after: _,
  steps,
  renames,
  hides,
  loses,
  obstacles,
  endpoints,
  ...plan
}: PlanForAdmin): Static<typeof ShownPlan> => ({
  ...plan,
  steps: steps.map((step) => ({ ...step })),
  renames: [...renames],
  hides: [...hides],
  loses: [...loses],
  obstacles: obstacles.map(({ path, rule, message }) => ({ path, rule, message })),
  endpoints: [...endpoints],
});

/** Query of operations that can show what they would do. */
export const dryRun = Type.Optional(Type.Boolean({ default: false, description: 'Do nothing, and answer the plan of the change' }));
