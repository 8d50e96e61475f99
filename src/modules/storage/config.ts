/** Configuration of files (specification storage.md section 4). Sizes are in bytes, times in seconds unless they say otherwise. */
import { isAbsolute } from 'node:path';
import Type, { type Static } from 'typebox';
import { defineConfig, harmless, sensitive } from '../../kernel/config/config-definition.ts';
import { imageFits, imageFormats } from './images/render-task.ts';
import { isContainerName } from './names.ts';

const MEGABYTE = 1_048_576;
/** A pebibyte. */
const MAX_BYTES = 1_024 ** 3 * MEGABYTE;
const day = 86_400;
const text = (description: string, value = '') =>
  Type.String({ default: value, maxLength: 1_000, description });
const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });
const whole = (value: number, [minimum, maximum]: readonly [number, number], description: string) =>
  Type.Integer({ default: value, minimum, maximum, description });
/** How long a link works. */
const expiry = (what: string) => whole(3_600, [10, 7 * day], `Seconds for which ${what} works.`);

const limits = Type.Object({
  maxFileSize: whole(
    100 * MEGABYTE,
    [1, 5 * 1_024 * 1_024 * MEGABYTE],
    'Bytes of one file, however it is uploaded.',
  ),
  maxJsonDataSize: whole(
    10 * MEGABYTE,
    [1, 50 * MEGABYTE],
    'Bytes of a file whose content is sent or asked for as base64 in JSON.',
  ),
  perUserQuota: whole(
    0,
    [0, MAX_BYTES],
    'Bytes that all files of one user may have, those in the trash included. 0: any number.',
  ),
  perTeamQuota: whole(
    0,
    [0, MAX_BYTES],
    'The same of a team, or whatever else owns files. 0: as much as a user.',
  ),
});

const aws = Type.Object({
  region: text('Region of the buckets.'),
  accessKeyId: text('Key that requests are signed with.'),
  secretAccessKey: sensitive({ description: 'Secret of that key.' }),
  accountId: text(
    'Goes into the names of buckets, which are unique in the world. Empty: the store is asked.',
  ),
  endpoint: text('Address of another S3-compatible server. Empty: the one of the region.'),
  usePathStyle: flag(true, 'Write the bucket into the path of addresses, not into the host.'),
  encryption: Type.Union([Type.Literal(''), Type.Literal('AES256'), Type.Literal('aws:kms')], {
    default: '',
    description:
      'How the store shall encrypt what it keeps: with its own keys (AES256) or with one of its key service (aws:kms). Empty: as the bucket says. It holds for what is stored from then on.',
  }),
  encryptionKey: text('Id of the key of the key service. Empty: the usual one of the account.'),
});

const local = Type.Object({
  storagePath: text(
    'Folder of the files: an absolute path. Empty: `storage` in the data folder. Several nodes need one that they share.',
  ),
  httpBaseUrl: text(
    'Public address under which links to contents begin, where that is not the client surface itself.',
  ),
  signingSecret: sensitive({
    description:
      'Key of signed links: 64 hex digits. Empty: one of this installation. Another one makes all links that are out useless.',
  }),
});

const connection = Type.Object({
  timeout: whole(
    30,
    [1, 600],
    'Seconds in which a store outside must send or take something, before it is asked again or given up.',
  ),
  attempts: whole(4, [1, 10], 'How often a request is sent to a store outside at most.'),
});

const side = (what: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum: 4_096, description: `${what} in pixels` }));

const images = Type.Object({
  maxSourceBytes: whole(
    25 * MEGABYTE,
    [1, 100 * MEGABYTE],
    'Bytes of a picture of which smaller ones are made.',
  ),
  maxPixels: whole(50_000_000, [1, 200_000_000], 'Pixels of such a picture.'),
  presets: Type.Record(
    Type.String({ maxLength: 100 }),
    Type.Object({
      w: side('Width'),
      h: side('Height'),
      fit: Type.Optional(Type.Enum(imageFits)),
      format: Type.Optional(Type.Enum(imageFormats)),
      quality: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
    }),
    {
      default: {
        thumbnail: { w: 200, h: 200, fit: 'cover' },
        small: { w: 480 },
        medium: { w: 1_024 },
        large: { w: 2_048 },
      },
      description: 'Sizes that visitors may ask for, by name.',
    },
  ),
});

const scan = Type.Object({
  url: text(
    'Address that new contents are sent to with POST. It answers JSON: result, which is clean or infected. Empty: nothing is examined.',
  ),
  secret: sensitive({ description: 'Sent to that address as bearer token.' }),
  quarantine: flag(true, 'Contents are kept away from everybody until they are found clean.'),
  maxSize: whole(
    256 * MEGABYTE,
    [1, 5 * 1_024 * MEGABYTE],
    'Bytes of a content that is examined; larger ones count as clean.',
  ),
  timeout: whole(60, [1, 600], 'Seconds that an answer may take.'),
});

export const storageConfig = defineConfig({
  schema: Type.Object({
    provider: Type.Union(
      (['local', 'aws', 'azure', 'google', 'aliyun'] as const).map((name) => Type.Literal(name)),
      {
        default: 'local',
        description: 'Where the bytes of files lie. Files that are there do not move along.',
      },
    ),
    defaultContainer: text('Container of files whose upload names none.', 'penstock'),
    allowContainerCreation: flag(
      false,
      'Users may create containers by naming one that is not there. Operators always may.',
    ),
    suffixOnNameConflict: flag(
      false,
      'A file whose name is taken becomes `name (1).ext`. Off: it is refused.',
    ),
    limits,
    upload: Type.Object({
      urlExpiry: expiry('the address that an upload is sent to'),
      pendingExpiry: whole(
        day,
        [60, 30 * day],
        'Seconds after which an upload that never came is given up.',
      ),
      direct: flag(
        false,
        'Give out addresses of the provider itself for uploads, where it has such. Off: they lead through the platform.',
      ),
    }),
    download: Type.Object({ urlExpiry: expiry('a signed link to a private file') }),
    authorization: Type.Object({
      enabled: flag(
        false,
        'Relations decide about private files: owners (users or teams), those with whom they are shared, and those who have rights on the folder or the container. Needs the module authorization.',
      ),
      contentAction: Type.String({
        default: '',
        maxLength: 64,
        description:
          'Action of the resource definition File that the content of a private file asks for beside read, such as download. Empty: whoever may read a file may read its content.',
      }),
    }),
    access: Type.Object({
      privateRead: Type.Union([Type.Literal('authenticated'), Type.Literal('owner')], {
        default: 'authenticated',
        description:
          'Who reads private files while relations are not asked: every signed-in user, or the owner alone.',
      }),
      hideForbidden: flag(
        false,
        'A file that the caller may not read is answered as one that is not there (404 instead of 403).',
      ),
    }),
    audit: Type.Object({
      downloads: flag(
        false,
        'Write to the audit log who has read the content of which file, by whichever address, before it is sent.',
      ),
    }),
    deletedOwners: Type.Object({
      files: Type.Union([Type.Literal('keep'), Type.Literal('delete')], {
        default: 'keep',
        description:
          'What becomes of the files of a user or a team that is deleted. keep: they stay and belong to nobody, so that operators alone change them. delete: they are deleted in the background, as their owner would delete them; those that records or messages hold stay.',
      }),
    }),
    trash: Type.Object({
      days: whole(
        0,
        [0, 365],
        'Days for which deleted files can be brought back. 0: they are gone at once.',
      ),
    }),
    scan,
    connection,
    local,
    images,
    aws,
    azure: Type.Object({
      connectionString: sensitive({ description: 'Connection string of the storage account.' }),
    }),
    google: Type.Object({
      endpoint: text(
        'Address of another way to the store, such as a private endpoint. Empty: the public one.',
      ),
      serviceAccountKeyPath: text('File of this machine with the key of a service account.'),
      serviceAccountKeyJson: sensitive({ description: 'The same key itself, instead of a file.' }),
      encryptionKey: text(
        'Name of a key of the key service that the store shall encrypt with. Empty: as the bucket says.',
      ),
    }),
    aliyun: Type.Object({
      region: text('Region of the buckets.'),
      accessKeyId: text('Key that requests are signed with.'),
      accessKeySecret: sensitive({ description: 'Secret of that key.' }),
    }),
    cdnConfiguration: Type.Record(Type.String(), Type.String({ maxLength: 1_000 }), {
      default: {},
      description:
        'Hosts that stand before the platform, by container: links to public files name them.',
    }),
    listing: Type.Object({
      maxPage: Type.Integer({
        ...harmless,
        default: 200,
        minimum: 1,
        maximum: 1_000,
        description: 'Files and folders on one page of a list.',
      }),
    }),
  }),
  check: ({
    defaultContainer,
    scan: { url },
    local: { storagePath, httpBaseUrl, signingSecret },
    aws: store,
    google,
  }) => [
    ...(google.endpoint === '' || isHttpUrl(google.endpoint)
      ? []
      : [
          problem('google.endpoint', 'format', 'write an address like https://storage.example.com'),
        ]),
    ...(store.endpoint === '' || isHttpUrl(store.endpoint)
      ? []
      : [problem('aws.endpoint', 'format', 'write an address like https://s3.example.com')]),
    ...(store.encryptionKey === '' || store.encryption === 'aws:kms'
      ? []
      : [problem('aws.encryptionKey', 'requires', 'goes with aws.encryption: aws:kms')]),
    ...(url === '' || isHttpUrl(url)
      ? []
      : [problem('scan.url', 'format', 'write an address like http://127.0.0.1:8080/scan')]),
    ...(isContainerName(defaultContainer)
      ? []
      : [problem('defaultContainer', 'format', 'this is not a name of a container')]),
    ...(storagePath === '' || isAbsolute(storagePath)
      ? []
      : [problem('local.storagePath', 'format', 'write an absolute path')]),
    ...(httpBaseUrl === '' || isHttpUrl(httpBaseUrl)
      ? []
      : [
          problem('local.httpBaseUrl', 'format', 'write an address like https://files.example.com'),
        ]),
    ...(signingSecret === '' || /^[0-9a-f]{64}$/i.test(signingSecret)
      ? []
      : [problem('local.signingSecret', 'format', 'write 64 hex digits')]),
  ],
});

const problem = (path: string, rule: string, message: string) => ({ path, rule, message });

const isHttpUrl = (text: string): boolean =>
  URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);

export type StorageConfig = Static<typeof storageConfig.schema>;
