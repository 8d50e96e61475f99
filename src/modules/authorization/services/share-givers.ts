/** What users may give away by sharing: relations that let others do no more than they may do themselves. */
import { invalid } from '../../../kernel/errors.ts';
import type { Question } from '../engine/engine.ts';
import { authorizationErrors } from '../errors.ts';
import type { Definition } from '../model/definition.ts';
import type { ObjectRef, SubjectRef } from '../model/grammar.ts';
import { actionsGiven, shareAction } from '../model/sharing.ts';
import type { Checks } from './checks.ts';
import type { Models } from './definitions/models.ts';

/** Questions that the engine answers at once. */
const MAX_QUESTIONS = 50;

/** A relation to something that somebody offers. */
export interface Given {
  readonly by: string;
  readonly resource: ObjectRef;
  readonly relation: string;
}

interface GiversParts {
  readonly models: Models;
  readonly checks: Pick<Checks, 'allHold'>;
}

export type Givers = ReturnType<typeof createGivers>;

export function createGivers({ models, checks }: GiversParts) {
  /** The definition of a type that can be shared at all. */
  const definitionOf = async ({ type }: ObjectRef): Promise<Definition> => {
    const definition = (await models.engine()).model.get(type);
    if (!definition) throw invalid('resource', 'type', `no type is called "${type}"`);
    return definition;
  };

  const may = (
    userId: string,
    resource: ObjectRef,
    actions: readonly string[],
  ): Promise<readonly boolean[]> =>
    allHold(
      checks,
      actions.map((action) => ({ subject: userSubject(userId), action, resource })),
    );

  async function requireGiver(
    userId: string,
    resource: ObjectRef,
    relation?: string,
  ): Promise<void> {
    const definition = await definitionOf(resource);
    if (!definition.actions.has(shareAction) && relation === undefined)
      throw authorizationErrors.SHARING_REFUSED();
    if (relation !== undefined && !definition.shareable.has(relation))
      throw invalid('relation', 'shareable', unshared(definition, relation));
    const given = relation === undefined ? [] : actionsGiven(definition, relation);
    const needed = [...new Set([shareAction, ...given])];
    const answers = await may(userId, resource, needed);
    const missing = needed.filter((_, i) => !answers[i]);
    if (missing.length === 0) return;
    throw missing.includes(shareAction)
      ? authorizationErrors.SHARING_REFUSED()
      : authorizationErrors.SHARING_REFUSED({
          message: `As ${relation} one may ${missing.join(', ')} this, which you may not`,
        });
  }

  return { definitionOf, may, requireGiver };
}

/** For each offer whether whoever makes it may. */
export async function mayGive(
  { models, checks }: GiversParts,
  offers: readonly Given[],
): Promise<readonly boolean[]> {
  const { model } = await models.engine();
  const questions = offers.map(({ by, resource, relation }) =>
    neededFor(model.get(resource.type), relation).map((action) => ({
      ...{ subject: userSubject(by), action, resource },
    })),
  );
  const answers = await allHold(checks, questions.flat());
  let at = 0;
  return questions.map((own) => {
    const held = answers.slice(at, at + own.length);
    at += own.length;
    return own.length > 0 && held.every(Boolean);
  });
}

/** What an offer needs of whoever makes it; nothing where there is no such offer any more. */
const neededFor = (definition: Definition | undefined, relation: string): readonly string[] =>
  definition?.shareable.has(relation) && definition.actions.has(shareAction)
    ? [...new Set([shareAction, ...actionsGiven(definition, relation)])]
    : [];

async function allHold(
  checks: GiversParts['checks'],
  questions: readonly Question[],
): Promise<readonly boolean[]> {
  const answers: boolean[] = [];
  for (let at = 0; at < questions.length; at += MAX_QUESTIONS)
    answers.push(...(await checks.allHold(questions.slice(at, at + MAX_QUESTIONS))));
  return answers;
}

const unshared = ({ name, shareable }: Definition, relation: string): string => {
  const known = [...shareable].map((one) => `"${one}"`).join(', ');
  return known === ''
    ? `${name} is not shared by users`
    : `"${relation}" is not shared by users: of ${name}, ${known} can be`;
};

export const userSubject = (id: string): SubjectRef => ({ type: 'User', id, relation: '' });
