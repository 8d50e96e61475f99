/** What belongs to one user, in every module, and strangers who would like to have it. */
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import type { Answer, Json } from '../../test/support/api.ts';
import { openTestConnection } from '../../test/support/connection.ts';
import { createCookieBrowser } from '../../test/support/cookie-browser.ts';
import { expectStatus, type TestNode, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import type { TestPlatform } from '../../test/support/platform.ts';
import { sendForm } from '../storage/requests.ts';
import { switchOn } from '../switched-on.ts';

/** Stands in all that belongs to the owner, so that it can be found in answers to others. */
export const mark = 'owned-by-anna';

export interface World {
  readonly anna: TestUser;
  /** A member of the team and of the room, without rights over either. */
  readonly carl: TestUser;
  /** Knows every id, and has nothing to do with any. */
  readonly eve: TestUser;
  /** Ids of what belongs to Anna. */
  readonly ids: Ids;
  /** What belongs to Eve, and could be made to lead to it. */
  readonly own: Readonly<Record<'holder' | 'room', string>>;
}

type Teams = Record<'team' | 'subTeam' | 'offer', string>;
type Chats = Record<'room' | 'message' | 'invitation', string>;
type Files = Record<'file' | 'trashed' | 'link' | 'folder' | 'upload' | 'resumable', string>;
type Account = Record<
  'notification' | 'session' | 'deviceKey' | 'identity' | 'passkey' | 'openidClient',
  string
>;
type Ids = Readonly<Teams & Chats & Files & Account & Record<'note', string>>;

const done = (answer: Answer<Json>, what: string): Json => expectStatus(answer, 200, what).body;

/** Switches everything on, and lets Anna own one of everything. */
export async function createWorld(node: TestPlatform): Promise<World> {
  await configure(node);
  const [anna, carl, eve] = await Promise.all([
    node.registerUser({ email: `${mark}@example.com` }),
    node.registerUser(),
    node.registerUser(),
  ]);
  const ids = {
    ...(await teamsOf({ anna, carl })),
    ...(await chatsOf({ anna, carl })),
    ...(await filesOf(node, anna)),
    ...(await accountOf(node, anna)),
    note: String(done(await anna.api.post('/database/Note', { text: mark }), 'a record')._id),
  };
  const own = {
    holder: done(await eve.api.post('/database/Holder', { text: 'of Eve' }), 'a holder')._id,
    room: done(
      await eve.api.post('/chat/rooms', { roomName: 'of Eve', users: [carl.userId] }),
      'a room',
    ).roomId,
  };
  return { anna, carl, eve, ids, own };
}

async function configure({ admin, addresses, createSchema }: TestNode): Promise<void> {
  await liftLimits(admin);
  await switchOn(admin);
  const configure = async (module: string, config: object) =>
    expectStatus(await admin.patch(`/config/${module}`, { config }), 200, module);
  await configure('authentication', {
    accessTokens: { issuer: addresses.client },
    captcha: { enabled: false },
    local: { verification: { required: false } },
  });
  await configure('storage', { authorization: { enabled: true }, trash: { days: 1 } });
  await configure('chat', { explicit_room_joins: { enabled: true } });
  const owner = ['owner', 'owner->edit'];
  const note = {
    name: 'Note',
    relations: { owner: ['User', 'Team'], reader: { types: ['User'], shareable: true } },
    permissions: {
      read: ['reader', ...owner],
      ...allOf(['edit', 'delete', 'share', 'move'], owner),
    },
    version: 1,
  };
  expectStatus(await admin.post('/authorization/resources', note), 200, 'a definition');
  const conduitOptions = { authorization: { enabled: true } };
  await createSchema({ name: 'Note', fields: { text: 'String' }, conduitOptions });
  const file = { type: 'Relation', model: 'File' } as const;
  const fields = { text: 'String', file, files: [file], note: { ...file, model: 'Note' } } as const;
  await createSchema({ name: 'Holder', fields, conduitOptions });
}

const allOf = <T>(names: readonly string[], value: T): Record<string, T> =>
  Object.fromEntries(names.map((name) => [name, value]));

async function teamsOf({ anna, carl }: Pick<World, 'anna' | 'carl'>): Promise<Teams> {
  const team = done(await anna.api.post('/authentication/teams', { name: mark }), 'a team')._id;
  const below = { name: `${mark} below`, parentTeam: team };
  const subTeam = done(await anna.api.post('/authentication/teams', below), 'a team below')._id;
  const member = { userId: carl.userId, role: 'member' };
  done(await anna.api.post(`/authentication/teams/${team}/add`, member), 'a member');
  const offered = await anna.api.post(`/authentication/teams/${team}/invite/persistent`, {
    role: 'member',
  });
  return { team, subTeam, offer: done(offered, 'a persistent invitation').result };
}

async function chatsOf({ anna, carl }: Pick<World, 'anna' | 'carl'>): Promise<Chats> {
  const request = { roomName: mark, users: [carl.userId] };
  const { roomId: room } = done(await anna.api.post('/chat/rooms', request), 'a room');
  const content = { contentType: 'text', content: mark };
  const said = await anna.api.post(`/chat/rooms/${room}/messages`, content);
  const { invitations = [] } = done(await carl.api.get('/chat/invitations/received'), 'asked');
  return { room, message: done(said, 'a message')._id, invitation: invitations[0]._id };
}

async function filesOf(node: TestNode, anna: TestUser): Promise<Files> {
  const kept = async (name: string) =>
    String(
      (await sendForm(node, anna, [`${name}.txt`, mark], { fields: { folder: mark } })).body.id,
    );
  const [file, trashed] = [await kept(mark), await kept(`${mark}-gone`)];
  done(await anna.api.delete(`/storage/file/${trashed}`), 'a file in the trash');
  const { link } = done(await anna.api.post(`/storage/file/${file}/links`, {}), 'a link');
  const folder = done(await anna.api.post('/storage/folder', { name: `${mark}-own` }), 'a folder');
  const pending = { name: `${mark}-pending.txt`, mimeType: 'text/plain', size: 5 };
  const begun = done(await anna.api.post('/storage/upload', pending), 'an upload');
  const resumable = await fetch(new URL('/storage/resumable', node.addresses.client), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${anna.accessToken}`,
      'tus-resumable': '1.0.0',
      'upload-length': '5',
      'upload-metadata': `filename ${btoa(`${mark}.bin`)}`,
    },
  });
  return {
    file,
    trashed,
    link: link._id,
    folder: folder._id,
    upload: begun.id,
    resumable: String(resumable.headers.get('location')).replace(/^.*\//, ''),
  };
}

async function accountOf(node: TestPlatform, anna: TestUser): Promise<Account> {
  const note = { userId: anna.userId, title: mark, body: mark };
  done(await node.admin.post('/admin/pushNotifications/send', note), 'a notification');
  const { notifications } = done(await anna.api.get('/notifications'), 'the inbox');
  await node.login(anna.email, anna.password);
  const { sessions } = done(await anna.api.get('/authentication/sessions'), 'sessions');
  return {
    notification: notifications[0]._id,
    session: sessions.find(({ current }: Json) => !current)._id,
    deviceKey: await deviceKeyOf(anna),
    openidClient: await consentOf(node, anna),
    ...(await storedOf(node, anna)),
  };
}

/** What takes a browser or another provider to make. */
async function storedOf({ databaseUrl = '' }: TestPlatform, { userId }: TestUser) {
  const [identity, passkey] = [randomUUID(), randomUUID()];
  const sql = await openTestConnection(databaseUrl);
  await sql.query(
    `insert into penstock.identities (id, provider, subject, user_id, data) values ($1, 'google', $2, $3, '{}')`,
    [identity, mark, userId],
  );
  await sql.query(
    `insert into penstock.passkeys (id, user_id, credential_id, public_key, counter, transports, multi_device, backed_up, aaguid, name)
     values ($1, $2, $3, '', 0, '{}', false, false, '', $3)`,
    [passkey, userId, mark],
  );
  await sql.close();
  return { identity, passkey };
}

async function deviceKeyOf({ api }: TestUser): Promise<string> {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const der = publicKey.export({ format: 'der', type: 'spki' }).toString('base64');
  const begun = await api.post('/authentication/biometrics/enroll', { publicKey: der });
  const { challenge } = done(begun, 'a device');
  const encryptedData = sign('sha256', Buffer.from(challenge), privateKey).toString('base64');
  const confirmed = await api.post('/authentication/biometrics/enroll/verify', { encryptedData });
  return done(confirmed, 'its key').keyId;
}

/** An app that Anna has agreed to. */
async function consentOf(
  { admin, addresses }: Pick<TestNode, 'admin' | 'addresses'>,
  anna: TestUser,
): Promise<string> {
  const redirectUri = 'https://app.example.com/callback';
  const client = { clientId: 'calendar', name: mark, kind: 'spa', redirectUris: [redirectUri] };
  done(await admin.post('/authentication/openid/clients', client), 'an app');
  const browser = createCookieBrowser(addresses.client);
  const query = new URLSearchParams({
    client_id: 'calendar',
    redirect_uri: redirectUri,
    response_type: 'code',
    scope: 'openid',
    code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    code_challenge_method: 'S256',
  });
  let { url } = await browser.visit(`${addresses.client}/openid/authorize?${query}`);
  const authorization = `Bearer ${anna.accessToken}`;
  const login = await browser.send(`${url}/sign-in`, {}, { authorization });
  ({ url } = await browser.visit(String(login.body.redirectTo)));
  await browser.send(`${url}/consent`, { allow: true }, { origin: addresses.client });
  return 'calendar';
}
