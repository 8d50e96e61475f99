/**
 * Teams of operators as state: their names, their places and which is the default. Who belongs to them is data, and
 * so are the teams that users make, with everything below them.
 */
import Type, { type Static } from 'typebox';
import type { Caller } from '../../../../kernel/caller.ts';
import { byText } from '../../../../kernel/canonical.ts';
import type { Database, Queryable } from '../../../../kernel/database/database.ts';
import type { Problem } from '../../../../kernel/errors.ts';
import { invalidInput } from '../../../../kernel/operations/problems.ts';
import {
  placed,
  type StateChange,
  type StateDocument,
  type StateType,
  touchesNothing,
} from '../../../../kernel/state.ts';
import type { TeamAccess } from './access.ts';
import { allTeams, type TeamRow } from './queries.ts';
import { maxLevels, type Teams, teamName } from './teams.ts';

const TeamDocument = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 100 }),
  parentTeamName: Type.Optional(
    Type.Union([Type.String({ minLength: 1, maxLength: 2_048 }), Type.Null()], {
      description:
        'Names from the root down, joined by /; ~1 stands for a / within a name, ~0 for ~',
    }),
  ),
  isDefault: Type.Optional(Type.Boolean()),
});

type Document = Static<typeof TeamDocument>;

interface Parts {
  readonly database: Database;
  readonly teams: Pick<Teams, 'create' | 'change' | 'remove'>;
  readonly access: Pick<TeamAccess, 'authorization'>;
}

export const teamState = ({ database, teams, access }: Parts): StateType => ({
  module: 'authentication',
  type: 'teams',
  priority: 35,
  document: TeamDocument,
  keyOf: (document) => pathOf(document as Document),
  touches: touchesNothing,
  export: async () =>
    (await operatorTeams(database)).map(({ path, team }) => documentAt(path, team.isDefault)),
  async complete(_caller, documents) {
    const completed: StateDocument[] = [];
    for (const { document, place } of documents) {
      const { name, parentTeamName, isDefault = false } = document as Document;
      const own = await placed(place, () => teamName(name));
      completed.push({ name: own, ...(parentTeamName ? { parentTeamName } : {}), isDefault });
    }
    return completed;
  },
  isRemovable: ({ isDefault }) => isDefault !== true,
  async check(_caller, changes) {
    // Relations of teams are kept there: without it, nothing could be written.
    access.authorization();
    const { operators, users } = await teamsByPath(database);
    const problems = [...checkPlaces(operators, changes), ...takenPlaces(users, changes)];
    if (problems.length > 0) throw invalidInput(problems);
  },
  async apply(caller, changes) {
    const going = changes.filter(({ action }) => action === 'delete').map(({ key }) => key);
    // From the leaves up: what is below a team that goes would become a team of its own first.
    for (const path of going.sort((a, b) => depthOf(b) - depthOf(a))) {
      const found = (await operatorTeams(database)).find((one) => one.path === path);
      if (found) await teams.remove(caller, found.team.id);
    }
    await putAll(
      { database, teams },
      caller,
      changes.filter(({ after }) => after),
    );
  },
});

/** Parents before children; the default goes before another one becomes it. */
async function putAll(
  { database, teams }: Pick<Parts, 'database' | 'teams'>,
  caller: Caller,
  changes: readonly StateChange[],
): Promise<void> {
  if (changes.length === 0) return;
  await database.transaction(async (transaction) => {
    const ids = new Map(
      (await operatorTeams(transaction)).map(({ path, team }) => [path, team.id]),
    );
    const ordered = changes.toSorted(
      (a, b) => depthOf(a.key) - depthOf(b.key) || byText(a.key, b.key),
    );
    for (const { key, after } of ordered) {
      const { name, parentTeamName } = after as Document;
      const id = ids.get(key);
      if (id !== undefined) await teams.change(caller, id, { isDefault: false });
      else {
        const parentTeam = parentTeamName ? ids.get(parentTeamName) : undefined;
        const made = JSON.parse(await teams.create(caller, { name, parentTeam })) as {
          readonly _id: string;
        };
        ids.set(key, made._id);
      }
    }
    for (const { key, after } of ordered) {
      const id = ids.get(key);
      if (id !== undefined && (after as Document).isDefault)
        await teams.change(caller, id, { isDefault: true });
    }
  });
}

function checkPlaces(
  stored: readonly PlacedTeam[],
  changes: readonly StateChange[],
): readonly Problem[] {
  const paths = new Set(stored.map(({ path }) => path));
  for (const { action, key } of changes) {
    if (action === 'delete') paths.delete(key);
    else paths.add(key);
  }
  const before = stored.find(
    ({ path, team }) => team.isDefault && !changes.some(({ key }) => key === path),
  );
  const defaults = changes.filter(({ after }) => after?.isDefault === true);
  return [
    ...changes
      .filter(({ after, key }) => after && depthOf(key) > maxLevels)
      .map(({ place }) => ({
        path: `${place}.parentTeamName`,
        rule: 'depth',
        message: `teams can be at most ${maxLevels} levels deep`,
      })),
    ...changes.flatMap(({ after, place }): readonly Problem[] => {
      const parent = (after as Document | undefined)?.parentTeamName;
      return !parent || paths.has(parent)
        ? []
        : [
            {
              path: `${place}.parentTeamName`,
              rule: 'exists',
              message: `there is no team "${parent}"`,
            },
          ];
    }),
    ...defaults.slice(before ? 0 : 1).map(({ place }) => ({
      path: `${place}.isDefault`,
      rule: 'unique',
      message: `${before?.path ?? defaults[0]?.key ?? 'another team'} is the default already`,
    })),
  ];
}

/** A sub-team that a user made has the place that a document asks for: what is in it is not the operator's to guess. */
const takenPlaces = (
  users: readonly PlacedTeam[],
  changes: readonly StateChange[],
): readonly Problem[] =>
  changes.flatMap(({ action, key, after, place }): readonly Problem[] => {
    const taken =
      action === 'create' && (after as Document).parentTeamName
        ? users.find(({ path }) => path === key)
        : undefined;
    if (!taken) return [];
    const way = `PATCH /authentication/teams/${taken.team.id} {"origin": "operator"}`;
    return [
      {
        path: `${place}.name`,
        rule: 'unique',
        message: `a user made a team of this name here: rename it, or take it over (${way})`,
      },
    ];
  });

interface PlacedTeam {
  readonly path: string;
  readonly team: TeamRow;
}

interface TeamsByMaker {
  /** Made by operators, like all above them. */
  readonly operators: readonly PlacedTeam[];
  readonly users: readonly PlacedTeam[];
}

const operatorTeams = async (database: Queryable): Promise<readonly PlacedTeam[]> =>
  (await teamsByPath(database)).operators;

async function teamsByPath(database: Queryable): Promise<TeamsByMaker> {
  const rows = await allTeams(database);
  const byId = new Map(rows.map((team) => [team.id, team]));
  const pathFrom = ({ name, parentTeam }: TeamRow): string => {
    const parent = parentTeam === null ? undefined : byId.get(parentTeam);
    return parent ? `${pathFrom(parent)}/${escaped(name)}` : escaped(name);
  };
  const isOperators = ({ madeBy, parentTeam }: TeamRow): boolean => {
    const parent = parentTeam === null ? undefined : byId.get(parentTeam);
    return madeBy === null && (parent === undefined || isOperators(parent));
  };
  const found = Map.groupBy(
    rows.map((team) => ({ path: pathFrom(team), team })),
    ({ team }) => isOperators(team),
  );
  return { operators: found.get(true) ?? [], users: found.get(false) ?? [] };
}

const escaped = (name: string): string => name.replaceAll('~', '~0').replaceAll('/', '~1');
const plain = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~');
const depthOf = (path: string): number => path.split('/').length;

const pathOf = ({ name, parentTeamName }: Document): string =>
  `${parentTeamName ? `${parentTeamName}/` : ''}${escaped(name)}`;

function documentAt(path: string, isDefault: boolean): StateDocument {
  const end = path.lastIndexOf('/');
  return {
    name: plain(path.slice(end + 1)),
    ...(end > 0 && { parentTeamName: path.slice(0, end) }),
    isDefault,
  };
}
