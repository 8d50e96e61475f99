import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import type { CallProvider, ProviderAnswer } from '../providers/outcome.ts';
import { createFcm } from './fcm.ts';
import { type Device, inTurns } from './provider.ts';
import { createSnsPush } from './sns.ts';

const device = (id: string): Device => ({
  ...{ id, token: `token-${id}`, platform: 'ANDROID', environment: null, webKeys: null },
  ...{ endpointRef: null, updatedAt: new Date() },
});
const devices = [device('first'), device('second')];
const note = { silent: false, title: 'Hi' };
const answerOf = (status: number, text: string): ProviderAnswer => ({
  ...{ status, ok: status === 200, text, header: () => undefined },
  json: () => (text.startsWith('{') ? JSON.parse(text) : {}),
});

const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
const settings = {
  ...{ projectId: 'p', clientEmail: 'push@example.com', endpoint: '' },
  ...{ privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }).toString() },
  tokenEndpoint: 'https://oauth2.googleapis.com/token',
};

test('an access token that is refused between two devices leaves the first one done with', async () => {
  let refused = '';
  const call: CallProvider = async (url, { body }) => {
    if (url.endsWith('/token')) return answerOf(200, '{"access_token":"a","expires_in":3600}');
    return refused !== '' && String(body).includes(refused)
      ? answerOf(401, '{"error":{"status":"UNAUTHENTICATED"}}')
      : answerOf(200, '{"name":"x"}');
  };
  const fcm = createFcm(() => settings, call);
  await fcm.send(note, devices, 'm1');
  refused = 'token-second';
  // The token from before may have been revoked: the second one is asked again, with a new one.
  expect(await fcm.send(note, devices, 'm2')).toEqual([
    expect.objectContaining({ device: 'first', outcome: 'accepted' }),
    expect.objectContaining({ device: 'second', outcome: 'later', unknown: false }),
  ]);
  expect(await fcm.send(note, devices, 'm3')).toEqual([
    expect.objectContaining({ device: 'first', outcome: 'accepted' }),
    expect.objectContaining({ device: 'second', outcome: 'later', refusesKey: true }),
  ]);
});

test('an answer without an access token is told without what it holds in its place', async () => {
  const fcm = createFcm(
    () => settings,
    async () => answerOf(200, '{"id_token":"eyJ-secret"}'),
  );
  await expect(fcm.send(note, devices, 'm')).rejects.toThrow(/^200 no access token in the answer$/);
});

test('a mistake of ours with one device leaves the others done with', async () => {
  const send = async ({ id }: Device) => {
    if (id === 'second') throw new TypeError('Invalid character in header content');
    return { device: id, provider: 'apns', outcome: 'accepted', detail: '' } as const;
  };
  expect(await inTurns(devices, { provider: 'apns', atOnce: 20, send })).toEqual([
    { device: 'first', provider: 'apns', outcome: 'accepted', detail: '' },
    { device: 'second', provider: 'apns', outcome: 'later', detail: 'the delivery failed' },
  ]);
});

test('an application of SNS that is not there costs nobody the device', async () => {
  const said = '<Error><Code>NotFound</Code><Message>PlatformApplication is gone</Message></Error>';
  const settings = {
    ...{ region: 'eu-central-1', accessKeyId: 'A', secretAccessKey: 's', endpoint: '' },
    ...{ gcmApplicationArn: 'arn:aws:sns:x', apnsApplicationArn: '' },
  };
  const sns = createSnsPush(
    () => settings,
    async () => answerOf(404, said),
  );
  expect(await sns.send(note, [device('kept')], 'm')).toMatchObject([{ outcome: 'refused' }]);
});
