/**
 * Rights that come down from spaces to boards to cards by fields of records alone. Nodes keep what somebody reaches that
 * way; no change of a field, an owner or a relation on it is missed, whichever node it is made on and the other is asked.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expectStatus, type TestNode, type TestUser } from '../../test/support/node.ts';
import { permissionsApi } from '../../test/support/permissions.ts';
import { type Random, randomOf } from '../../test/support/random-numbers.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';

/** Changes, with every list asked after each: few with every test, more with `FIELD_STEPS=400`. */
const STEPS = Number(process.env.FIELD_STEPS ?? 60);
const SEED = Number(process.env.FIELD_SEED ?? 451);

interface Board {
  owner: string | undefined;
  space: string | undefined;
  others: string[];
}

describe('rights by fields of fields', () => {
  let nodes: TwoNodes;
  const users: TestUser[] = [];
  const random = randomOf(SEED);
  /** Subjects that read a space, by its id. */
  const spaces = new Map<string, Set<string>>();
  const boards = new Map<string, Board>();
  const cards = new Map<string, string | undefined>();

  const readsSpace = (user: string, id: string | undefined): boolean =>
    ['*', 'User:*', `User:${user}`].some((one) => spaces.get(id ?? '')?.has(one));
  const readsBoard = (user: string, id: string | undefined): boolean => {
    const board = boards.get(id ?? '');
    return (
      board !== undefined &&
      (board.owner === user ||
        [board.space, ...board.others].some((space) => readsSpace(user, space)))
    );
  };

  let turn = 0;
  const told = (): TestNode => (turn % 2 === 0 ? nodes.first : nodes.second);
  const asked = (): TestNode => (turn % 2 === 0 ? nodes.second : nodes.first);
  const docs = (schema: string): string => `/database/schemas/${schema}/docs`;
  const add = async (schema: string, body: object): Promise<string> =>
    expectStatus(
      await told().admin.post(docs(schema), { inputDocument: body }),
      200,
      `add ${schema}`,
    ).body._id;
  const change = async (schema: string, id: string, changedDocument: object): Promise<void> =>
    void expectStatus(
      await told().admin.put(`${docs(schema)}/${id}`, { changedDocument }),
      200,
      `change ${schema}`,
    );
  const remove = async (schema: string, id: string): Promise<void> =>
    void expectStatus(await told().admin.delete(`${docs(schema)}/${id}`), 200, `remove ${schema}`);

  beforeAll(async () => {
    nodes = await startTwoNodes({ redis: false });
    const cms = {
      enabled: true,
      crudOperations: { read: { enabled: true, authenticated: true } },
    } as const;
    const to = (model: string) => ({ type: 'Relation', model }) as const;
    const owner = ['User'];
    const schemas = [
      [
        'Space',
        { title: 'String' },
        { owner, reader: ['User', 'User:*', '*'] },
        ['owner', 'reader'],
      ],
      [
        'Board',
        { title: 'String', space: to('Space'), others: [to('Space')] },
        { owner, space: { from: 'space' }, other: { from: 'others' } },
        ['owner', 'space->read', 'other->read'],
      ],
      [
        'Card',
        { title: 'String', board: to('Board') },
        { owner, board: { from: 'board' } },
        ['owner', 'board->read'],
      ],
    ] as const;
    for (const [name, fields, relations, read] of schemas) {
      await nodes.first.createSchema({
        name,
        fields,
        conduitOptions: { authorization: { enabled: true }, cms },
      });
      await permissionsApi(nodes.first.admin).define({
        name,
        version: 1,
        relations,
        permissions: { read, edit: ['owner'], delete: ['owner'] },
      });
    }
    for (let i = 0; i < 3; i += 1) users.push(await nodes.first.registerUser());
    for (let i = 0; i < 3; i += 1) spaces.set(await add('Space', { title: 's' }), new Set());
    for (let i = 0; i < 6; i += 1) await addBoard();
    for (const board of boards.keys())
      for (const title of ['a', 'b']) cards.set(await add('Card', { title, board }), board);
  });
  afterAll(() => nodes.close());

  const space = (): string => random.pick([...spaces.keys()]);
  const boardId = (): string => random.pick([...boards.keys()]);
  const user = (): string => random.pick(users).userId;
  async function addBoard(): Promise<void> {
    const fields = { space: space(), others: random.pick([[], [space()]]) };
    boards.set(await add('Board', { title: 'b', ...fields }), { owner: undefined, ...fields });
  }
  /** A relation comes, or goes where it is there. */
  async function toggleReader(): Promise<void> {
    const id = space();
    const subject = random.pick(['*', 'User:*', `User:${user()}`, `User:${user()}`]);
    const permissions = permissionsApi(told().admin);
    const readers = spaces.get(id);
    if (readers?.delete(subject)) return permissions.unrelate(`${subject} reader Space:${id}`);
    await permissions.relate(`${subject} reader Space:${id}`);
    readers?.add(subject);
  }
  async function changeOwner(): Promise<void> {
    const id = boardId();
    const board = boards.get(id) as Board;
    const permissions = permissionsApi(told().admin);
    if (board.owner) await permissions.unrelate(`User:${board.owner} owner Board:${id}`);
    board.owner = board.owner ? undefined : user();
    if (board.owner) await permissions.relate(`User:${board.owner} owner Board:${id}`);
  }
  const steps: readonly ((random: Random) => Promise<unknown>)[] = [
    toggleReader,
    toggleReader,
    changeOwner,
    addBoard,
    async () => {
      const id = boardId();
      const next = random.pick([undefined, space(), space()]);
      await change('Board', id, { space: next ?? null });
      (boards.get(id) as Board).space = next;
    },
    async () => {
      const id = boardId();
      const others = random.pick([[], [space()], [...spaces.keys()]]);
      await change('Board', id, { others });
      (boards.get(id) as Board).others = others;
    },
    async () => {
      const card = random.pick([...cards.keys()]);
      const board = boardId();
      await change('Card', card, { board });
      cards.set(card, board);
    },
    async () => {
      if (boards.size < 5) return addBoard();
      const id = boardId();
      for (const [card, board] of cards)
        if (board === id) {
          await change('Card', card, { board: null });
          cards.set(card, undefined);
        }
      await remove('Board', id);
      boards.delete(id);
    },
  ];

  async function listed(node: TestNode, who: TestUser, schema: string): Promise<unknown> {
    const api = node.client.with({ authorization: `Bearer ${who.accessToken}` });
    const { body } = expectStatus(
      await api.get(`/database/${schema}`, { query: { limit: 100 } }),
      200,
      `list ${schema}`,
    );
    return [body.count, body.documents.map(({ _id }: { _id: string }) => _id).sort()];
  }
  const expected = (ids: Iterable<string>, reads: (id: string) => boolean): unknown => {
    const seen = [...ids].filter(reads).sort();
    return [seen.length, seen];
  };

  it(
    'are those of the moment on the other node, after every change',
    async () => {
      for (turn = 0; turn < STEPS; turn += 1) {
        await random.pick(steps)(random);
        // Both keep what they found, and are asked by it.
        for (const node of [asked(), told()])
          for (const who of users) {
            const { userId } = who;
            const wanted = [
              expected(boards.keys(), (id) => readsBoard(userId, id)),
              expected(cards.keys(), (id) => readsBoard(userId, cards.get(id))),
            ];
            const found = await Promise.all(
              ['Board', 'Card'].map((schema) => listed(node, who, schema)),
            );
            expect([turn, found]).toEqual([turn, wanted]);
          }
      }
    },
    60_000 + STEPS * 5_000,
  );
});
