/** Rights that hang on a value of the request: records ask without one, and then they are not there. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { compare, input, location, operation } from '../../test/support/endpoints.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits, type PermissionsApi, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, connect } from '../realtime/clients.ts';

describe('where nobody can give a context', () => {
  let platform: TestPlatform;
  let permissions: PermissionsApi;
  let ada: TestUser;
  let bob: TestUser;
  const rowAuthorised = { authorization: { enabled: true } } as const;
  const conditions = { inside: { params: { place: 'string' }, rule: 'place == "inside"' } };
  const guests = ['User', 'User with inside', 'Crew'];

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
    permissions = permissionsApi(platform.admin);
    [ada, bob] = [await platform.registerUser(), await platform.registerUser()];
    await permissions.define({
      name: 'Crew',
      relations: { member: ['User with inside'] },
      permissions: { read: ['member'], edit: ['member'] },
      conditions,
    });
    const shelf = { type: 'Relation', model: 'Shelf' } as const;
    for (const [name, fields] of [
      ['Shelf', { title: 'String' }],
      ['Book', { title: 'String', shelf }],
    ] as const)
      await platform.createSchema({ name, fields, conduitOptions: rowAuthorised });
    await permissions.define({
      name: 'Shelf',
      version: 1,
      relations: { owner: ['User'], keeper: guests, reader: ['User'] },
      permissions: {
        read: ['owner', 'reader', 'keeper'],
        keep: ['owner', 'keeper'],
        edit: ['owner'],
        delete: ['owner'],
      },
      conditions,
    });
    await permissions.define({
      name: 'Book',
      version: 1,
      relations: {
        owner: ['User', 'Crew'],
        shelf: { from: 'shelf' },
        reader: { types: ['User'], shareable: true },
      },
      permissions: {
        create: ['shelf->keep'],
        read: ['owner', 'reader', 'shelf->keep'],
        edit: ['owner'],
        delete: ['owner'],
        share: ['owner', 'shelf->keep'],
        lend: ['shelf->keep'],
      },
    });
  });
  afterEach(closeClients);
  afterAll(() => platform?.close());

  /** A shelf of Ada's that Bob reads, and keeps as long as the place is inside. */
  async function newShelf(): Promise<string> {
    const { body } = expectStatus(await ada.api.post('/database/Shelf', { title: 's' }), 200, 's');
    const resource = `Shelf:${body._id}`;
    await permissions.relate(`User:${bob.userId} reader ${resource}`);
    const keeper = { subject: `User:${bob.userId}`, relation: 'keeper', resource };
    expectStatus(
      await platform.admin.post('/authorization/relations', { ...keeper, condition: 'inside' }),
      200,
      'keeper',
    );
    return body._id;
  }
  const newBook = async (shelf: string): Promise<string> =>
    expectStatus(await ada.api.post('/database/Book', { title: 'b', shelf }), 200, 'b').body._id;
  const refused = (answer: { status: number; body: { code?: string } }) => [
    answer.status,
    answer.body.code,
  ];

  it('refuses to create, to share and to act for a scope, and says to a question what is missing', async () => {
    const shelf = await newShelf();
    const book = await newBook(shelf);
    expect(refused(await bob.api.post('/database/Book', { shelf }))).toEqual([403, 'FORBIDDEN']);
    const many = { docs: [{ shelf }, { shelf }] };
    expect(refused(await bob.api.post('/database/Book/many', many))).toEqual([403, 'FORBIDDEN']);
    const shares = `/authorization/shares/Book:${book}`;
    const share = { subject: `User:${ada.userId}`, relation: 'reader' };
    expect(refused(await bob.api.post(shares, share))).toEqual([403, 'SHARING_REFUSED']);
    expect(refused(await bob.api.get(shares))).toEqual([403, 'SHARING_REFUSED']);

    const crew = 'Crew:night';
    const member = { subject: `User:${bob.userId}`, relation: 'member', resource: crew };
    const conditional = { ...member, condition: 'inside' };
    expectStatus(await platform.admin.post('/authorization/relations', conditional), 200, 'member');
    const scoped = await bob.api.get('/database/Book', { query: { scope: crew } });
    expect(refused(scoped)).toEqual([403, 'SCOPE_REFUSED']);

    const query = { action: 'lend', resource: `Book:${book}` };
    expect(refused(await bob.api.get('/authorization/check', { query }))).toEqual([
      400,
      'CONTEXT_MISSING',
    ]);
    const { body } = await bob.api.post('/authorization/check/many', {
      checks: [query],
      context: { place: 'inside' },
    });
    expect(body.results).toEqual([{ allowed: true }]);
  });

  it('refuses an endpoint that needs an action on another record', async () => {
    const book = await newBook(await newShelf());
    await platform.createSchema({ name: 'Loan', fields: { book: 'String' } });
    expectStatus(
      await platform.admin.post('/database/customEndpoints', {
        name: 'loansOf',
        operation: operation.get,
        selectedSchemaName: 'Loan',
        authentication: true,
        inputs: [input('book', 'String', location.query)],
        query: { AND: [compare('book', 0, ['Input', 'book'])] },
        requires: { action: 'lend', record: { schema: 'Book', input: 'book' } },
      }),
      200,
      'endpoint',
    );
    const call = (who: TestUser) => who.api.get('/database/function/loansOf', { query: { book } });
    expect((await call(ada)).status).toBe(200);
    expect(refused(await call(bob))).toEqual([403, 'FORBIDDEN']);
  });

  it('ends no subscription with the deletion of what one could not read', async () => {
    const [hidden, seen] = [await newBook(await newShelf()), await newBook(await newShelf())];
    await permissions.relate(`User:${bob.userId} reader Book:${seen}`);
    const { ask, heard } = await connect(platform, bob);
    expect(await ask('subscribe', { schema: 'Book' })).toMatchObject({ ok: true });
    for (const id of [hidden, seen])
      expectStatus(await ada.api.delete(`/database/Book/${id}`), 200, 'delete');
    const gone = () => heard.filter(({ data }) => data.operation === 'delete');
    await waitFor(() => gone().length > 0 || heard.some(({ event }) => event !== 'change'));
    expect(gone().map(({ data }) => data.documentId)).toEqual([seen]);
    expect(heard.filter(({ event }) => event !== 'change')).toEqual([]);
  });
});
