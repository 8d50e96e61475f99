/** What signed-in users may ask. The subject is always the caller. */
import Type from 'typebox';
import type { Database } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import { andThen } from '../../../kernel/maybe-promise.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { authorizationErrors } from '../errors.ts';
import { parseObject, type SubjectRef } from '../model/grammar.ts';
import { grantRelation } from '../model/model.ts';
import { type Checks, type LegacyCheck, scopeRefused, userSubject } from '../services/checks.ts';
import type { Models } from '../services/definitions/models.ts';
import type { ConsistencyTokens } from '../services/tokens.ts';
import { answerOnWire, BatchAnswer, bodyLimit, maxQuestions } from './questions.ts';
import {
  asRequested,
  Context,
  Name,
  nameOf,
  questionErrors,
  Resource,
  Scope,
  Token,
  userOf,
} from './shapes.ts';

export interface ClientServices {
  readonly database: Database;
  readonly models: Models;
  readonly checks: Checks;
  readonly legacyCheck: LegacyCheck;
  readonly tokens: ConsistencyTokens;
}

export const clientOperations = (services: ClientServices): readonly Operation[] => [
  check(services),
  checkMany(services),
  role(services),
  legacy(services),
];

const facts = { surface: 'client', access: 'user', limit: standardLimit } as const;
const Allowed = Type.Object({ allowed: Type.Boolean() });

const answerOf = (allowed: boolean) => ({ allowed });

const check = ({ checks, tokens }: ClientServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.check',
    method: 'GET',
    path: '/authorization/check',
    input: {
      query: Type.Object({
        action: Name,
        resource: Resource,
        scope: Scope,
        consistencyToken: Token,
      }),
    },
    output: Allowed,
    errors: [authorizationErrors.SCOPE_REFUSED, ...questionErrors],
    summary: 'Ask whether you may do something',
    description:
      'With a scope, whether the scope may, if you may do the same on the scope (else 403). Unknown actions and types are 400.',
    handler({ caller }, { query: { action, resource, scope, consistencyToken } }) {
      tokens.require(consistencyToken);
      const object = parseObject(resource, 'resource');
      return andThen(checks.acting(userSubject(caller), action, scope), (subject) => {
        if (subject) return checks.can({ subject, action, resource: object }).then(answerOf);
        throw scopeRefused(action, scope);
      });
    },
  });

/** A batch: the engine counts the questions where there are several. */
const ofChecks = (path: string): string =>
  path.replace(
    /^(?:(\d+)\.)?(subject|action|resource)$/,
    (_, i = '0', part) => `checks.${i}.${part}`,
  );

/** Relations of one's own making are not taken: through them one could find out what others hold. */
const checkMany = ({ checks, tokens }: ClientServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.checkMany',
    method: 'POST',
    readOnly: true,
    idempotency: false,
    path: '/authorization/check/many',
    strict: true,
    bodyLimit,
    input: {
      body: Type.Object({
        checks: Type.Array(Type.Object({ action: Name, resource: Resource }), {
          minItems: 1,
          maxItems: maxQuestions,
          description: 'The questions; each has its own answer',
        }),
        scope: Scope,
        context: Type.Optional(Context),
        consistencyToken: Token,
      }),
    },
    output: Type.Object({ results: Type.Array(BatchAnswer) }),
    errors: questionErrors,
    summary: 'Ask what you may do, in many places at once',
    description:
      'At most 50 questions, answered in their order. Conditions see the context. With a scope, whether the scope may. One that has no answer, or where you may not act for the scope, is not allowed, says why, and does not stand in the way of the others.',
    async handler(context, { body: { checks: asked, scope, context: values, consistencyToken } }) {
      tokens.require(consistencyToken);
      const { subject } = userOf(context);
      const options = { context: values ?? {}, contextual: [] };
      const questions = asked.map(({ action, resource }, i) => ({
        subject,
        action: nameOf(action, `checks.${i}.action`),
        resource: parseObject(resource, `checks.${i}.resource`),
      }));
      const acting = new Map<string, SubjectRef | undefined>();
      for (const action of new Set(questions.map((question) => question.action)))
        acting.set(action, await checks.acting(subject, action, scope, options));
      // Asked in their places, so that what is wrong is told with its number.
      const answers = await asRequested(ofChecks, () =>
        checks.answers(
          questions.map((one) => ({ ...one, subject: acting.get(one.action) ?? subject })),
          options,
        ),
      );
      const results = answers.map((answer, i) => {
        const action = questions[i]?.action ?? '';
        if (acting.get(action)) return answerOnWire(answer);
        return answerOnWire({ allowed: false, undecided: scopeRefused(action, scope) });
      });
      return { results };
    },
  });

const role = ({ database, models, checks, tokens }: ClientServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.role',
    method: 'GET',
    path: '/authorization/role/:resource',
    input: {
      params: Type.Object({ resource: Resource }),
      query: Type.Object({ scope: Scope, consistencyToken: Token }),
    },
    output: Type.Object({ roles: Type.Array(Type.String()) }),
    errors: [authorizationErrors.SCOPE_REFUSED, ...questionErrors],
    summary: 'List the relations in which you stand to something',
    description:
      'Only direct ones. With a scope that you may read, those of the scope. Unknown types are 400.',
    async handler(context, { params, query: { scope, consistencyToken } }) {
      tokens.require(consistencyToken);
      const object = parseObject(params.resource, 'resource');
      const engine = await models.engine();
      if (!engine.model.get(object.type))
        throw invalid('resource', 'type', `no type is called "${object.type}"`);
      const subject = await checks.acting(userOf(context).subject, 'read', scope);
      if (!subject) throw scopeRefused('read', scope);
      const relations = await engine.directRelations(database, subject, object);
      return { roles: relations.filter((relation) => !relation.startsWith(grantRelation(''))) };
    },
  });

const legacy = ({ legacyCheck }: ClientServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authorization.legacyCheck',
    method: 'POST',
    path: '/authorization/check',
    legacy: true,
    idempotency: false,
    input: {
      body: Type.Object({
        resource: Type.String({
          pattern: '^[A-Za-z][\\w.-]{0,63}$',
          description: 'Name of a type',
        }),
        action: Type.String({ pattern: '^[A-Za-z][\\w.-]{0,63}$' }),
        resourceId: Type.Optional(
          Type.String({
            maxLength: 1_024,
            description: 'Without it only permissions and rules without conditions count',
          }),
        ),
      }),
    },
    output: Allowed,
    errors: questionErrors,
    summary: 'Ask whether a role, a rule or a relation lets you do something',
    description:
      'Allowed when a role of yours has the permission, or a rule for such a role holds, or a relation gives it.',
    async handler(context, { body }) {
      return { allowed: await legacyCheck({ ...body, userId: userOf(context).userId }) };
    },
  });
