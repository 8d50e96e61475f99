/** Rules of the 0.16 line, as operators keep them. */
import Type, { type Static } from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { authorizationErrors } from '../errors.ts';
import { type RuleRow, ruleOrders } from '../role-queries.ts';
import type { Rules } from '../services/rules.ts';
import { describedId, Id, Instant, paging, sortBy } from './shapes.ts';

export const ruleOperations = (rules: Rules): readonly Operation[] => [
  listRules(rules),
  createRule(rules),
  updateRule(rules),
  removeRule(rules),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit, legacy: true } as const;
const Message = Type.Object({ message: Type.String() });

const TypeOrAction = Type.String({
  pattern: '^[A-Za-z][\\w.-]{0,63}$',
  description: 'Name of a type or an action',
});
const ruleFields = {
  resource: TypeOrAction,
  action: TypeOrAction,
  role: Type.String({ minLength: 1, maxLength: 64, description: 'Name of a role' }),
};
const conditions = Type.Record(Type.String(), Type.Unknown(), {
  description:
    'Field of the record, or caller.<field>: a literal, "$user.<field>", or an object of eq, ne, in, nin, gt, lt, exists. All must hold',
});
/** A rule as it is written. */
export const NewRuleShape = Type.Object({ ...ruleFields, conditions: Type.Optional(conditions) });
const ruleParam = Type.Object({ ruleId: describedId('rule') });

const Rule = Type.Object({
  _id: Id,
  resource: Type.String(),
  action: Type.String(),
  role: Type.String(),
  conditions: Type.Record(Type.String(), Type.Unknown()),
  createdAt: Instant,
  updatedAt: Instant,
});

const ruleOnWire = ({
  id,
  createdAt,
  updatedAt,
  conditions: held,
  ...rest
}: RuleRow): Static<typeof Rule> => ({
  _id: id,
  ...rest,
  conditions: { ...held },
  createdAt: createdAt.toISOString(),
  updatedAt: updatedAt.toISOString(),
});

const listRules = (rules: Rules): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.rules.list',
    about: { resource: 'open' },
    method: 'GET',
    path: '/authorization/rules',
    input: {
      query: Type.Object({
        ...paging,
        sort: sortBy(ruleOrders.keys(), 'createdAt'),
        search: Type.Optional(
          Type.String({
            maxLength: 64,
            description: 'Part of the resource or the action; case does not matter',
          }),
        ),
        resource: Type.Optional(TypeOrAction),
        role: Type.Optional(ruleFields.role),
      }),
    },
    output: Type.Object({ rules: Type.Array(Rule), count: Type.Integer() }),
    summary: 'List rules',
    async handler(_context, { query }) {
      const { rules: found, count } = await rules.list(query);
      return { rules: found.map(ruleOnWire), count };
    },
  });

const createRule = (rules: Rules): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.rules.create',
    about: { resource: 'type' },
    method: 'POST',
    path: '/authorization/rules',
    // Misspelt conditions would be none, and the rule would hold for every record.
    strict: true,
    input: { body: NewRuleShape },
    output: Rule,
    errors: [authorizationErrors.RULE_EXISTS],
    summary: 'Create a rule',
    description:
      'Whoever holds the role may do the action on resources of the type, where the conditions hold.',
    handler: async ({ caller }, { body }) => ruleOnWire(await rules.create(caller, body)),
  });

const updateRule = (rules: Rules): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.rules.update',
    about: { resource: 'type' },
    method: 'PUT',
    path: '/authorization/rules/:ruleId',
    input: { params: ruleParam, body: Type.Partial(Type.Object({ ...ruleFields, conditions })) },
    output: Rule,
    errors: [authorizationErrors.RULE_NOT_FOUND, authorizationErrors.RULE_EXISTS],
    summary: 'Change a rule',
    description: 'What is left out stays.',
    handler: async ({ caller }, { params, body }) =>
      ruleOnWire(await rules.update(caller, params.ruleId, body)),
  });

const removeRule = (rules: Rules): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.rules.delete',
    method: 'DELETE',
    path: '/authorization/rules/:ruleId',
    input: { params: ruleParam },
    output: Message,
    errors: [authorizationErrors.RULE_NOT_FOUND],
    summary: 'Delete a rule',
    async handler({ caller }, { params }) {
      await rules.remove(caller, params.ruleId);
      return { message: 'Rule deleted' };
    },
  });
