import { create, type DescFile, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { Code, type ServiceImpl } from '@connectrpc/connect';
import { file_grpc_health } from '../contract/gen/grpc/health_pb.ts';
import {
  file_grpc_reflection_v1,
  type ServerReflection,
  type ServerReflectionRequest,
  ServerReflectionResponseSchema,
} from '../contract/gen/grpc/reflection_v1_pb.ts';
import {
  ServerReflectionResponseSchema as AlphaResponseSchema,
  file_grpc_reflection_v1alpha,
  type ServerReflection as ServerReflectionAlpha,
} from '../contract/gen/grpc/reflection_v1alpha_pb.ts';
import { file_sglang_scheduler } from '../contract/gen/sglang_scheduler_pb.ts';

const ROOTS = [file_sglang_scheduler, file_grpc_health, file_grpc_reflection_v1, file_grpc_reflection_v1alpha];

/** The .proto files served, each with what it imports. */
class FileIndex {
  readonly services: string[] = [];
  private readonly byName = new Map<string, DescFile>();
  private readonly bySymbol = new Map<string, DescFile>();

  constructor(roots: readonly DescFile[]) {
    for (const root of roots) {
      this.services.push(...root.services.map((service) => service.typeName));
      this.add(root);
    }
  }

  file(name: string): DescFile | undefined {
    return this.byName.get(name);
  }

  containing(symbol: string): DescFile | undefined {
    return this.bySymbol.get(symbol);
  }

  /** The file and its imports, as encoded descriptors, itself first. */
  closure(file: DescFile): Uint8Array[] {
    const seen = new Set<DescFile>();
    const visit = (one: DescFile) => {
      if (seen.has(one)) return;
      seen.add(one);
      one.dependencies.forEach(visit);
    };
    visit(file);
    return [...seen].map((one) => toBinary(FileDescriptorProtoSchema, one.proto));
  }

  private add(file: DescFile): void {
    const name = file.proto.name;
    if (this.byName.has(name)) return;
    this.byName.set(name, file);
    for (const service of file.services) {
      this.bySymbol.set(service.typeName, file);
      for (const method of service.methods) this.bySymbol.set(`${service.typeName}.${method.name}`, file);
    }
    for (const type of [...file.messages, ...file.enums]) this.bySymbol.set(type.typeName, file);
    file.dependencies.forEach((dependency) => {
      this.add(dependency);
    });
  }
}

/** Both versions of the reflection service; their messages differ by package only. */
export function reflectionServices(): {
  v1: ServiceImpl<typeof ServerReflection>;
  v1alpha: ServiceImpl<typeof ServerReflectionAlpha>;
} {
  const index = new FileIndex(ROOTS);
  return {
    v1: {
      async *serverReflectionInfo(requests) {
        for await (const request of requests) {
          yield create(ServerReflectionResponseSchema, {
            validHost: request.host,
            originalRequest: request,
            messageResponse: answer(index, request.messageRequest),
          });
        }
      },
    },
    v1alpha: {
      async *serverReflectionInfo(requests) {
        for await (const request of requests) {
          yield create(AlphaResponseSchema, {
            validHost: request.host,
            originalRequest: request,
            messageResponse: answer(index, request.messageRequest),
          });
        }
      },
    },
  };
}

type Answer =
  | { case: 'fileDescriptorResponse'; value: { fileDescriptorProto: Uint8Array[] } }
  | { case: 'listServicesResponse'; value: { service: { name: string }[] } }
  | { case: 'errorResponse'; value: { errorCode: number; errorMessage: string } };

function answer(
  index: FileIndex,
  request: ServerReflectionRequest['messageRequest'] | { case: string | undefined; value?: unknown },
): Answer {
  switch (request.case) {
    case 'listServices':
      return { case: 'listServicesResponse', value: { service: index.services.map((name) => ({ name })) } };
    case 'fileByFilename':
      return fileAnswer(index, index.file(String(request.value)));
    case 'fileContainingSymbol':
      return fileAnswer(index, index.containing(String(request.value)));
    case 'fileContainingExtension':
    case 'allExtensionNumbersOfType':
      return notFound('there are no extensions');
    default:
      return { case: 'errorResponse', value: { errorCode: Code.InvalidArgument, errorMessage: 'an empty request' } };
  }
}

function fileAnswer(index: FileIndex, file: DescFile | undefined): Answer {
  if (!file) return notFound('no such file or symbol');
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto: index.closure(file) } };
}

function notFound(errorMessage: string): Answer {
  return { case: 'errorResponse', value: { errorCode: Code.NotFound, errorMessage } };
}
